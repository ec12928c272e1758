"""The Python programs of the docs, and the examples, run and print what they should."""

import re
import subprocess
import sys

import pytest
from elastic_jobs import run_workers
from pages import PAGES, ROOT, RUN, text_of, write_program

import ffdl


def run(*command):
    return subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, timeout=300,
        check=True
    ).stdout


ALONE = {"docs/guide/parameter-server.md": "the first weight is 3.0\n",
         "docs/guide/python.md": "the sum is 3.0\n"}
WITH_TWO_WORKERS = {"docs/guide/start.md": "slope 2.50, offset -1.00",
                    "docs/guide/sessions.md": "step 400: slope 2.50, offset -1.00"}


def test_every_marked_program_is_run():
    assert {page for page in PAGES if RUN in text_of(page)} == {*ALONE, *WITH_TWO_WORKERS}


@pytest.mark.parametrize("page", ALONE)
def test_program_of_a_page(page, tmp_path):
    assert run(write_program(page, tmp_path)) == ALONE[page]


@pytest.mark.parametrize("page", WITH_TWO_WORKERS)
def test_elastic_program_of_a_page(page, tmp_path, monkeypatch):
    """As under `ffdl run --ledger-log`."""
    folder = tmp_path / "logs"
    folder.mkdir()
    monkeypatch.setenv("FFDL_LEDGER_LOG", str(folder))
    program = write_program(page, tmp_path)
    printed = run_workers(tmp_path, 2, program)
    assert [lines[-1] for lines in printed] == [WITH_TWO_WORKERS[page]] * 2
    logs = sorted(folder.iterdir())
    if "ElasticLoader" not in program.read_text():  # which opens the log
        assert not logs
        return
    assert [log.name for log in logs] == ["worker-0.commits", "worker-1.commits"]
    found = ffdl.audit_commit_logs([str(log) for log in logs], complete=True)
    assert (found.problems, found.epochs, found.samples) == (0, 20, 20_000)


def test_elastic_example(tmp_path):
    printed = run_workers(tmp_path, 2, ROOT / "examples" / "04_elastic.py", "--epochs", "20")
    ends = {lines[-1] for lines in printed}
    assert len(ends) == 1  # the same weights
    (end,) = ends
    accuracy = re.fullmatch(r"step \d+: (.*)% of the test images, weights [0-9a-f]{8}", end)[1]
    assert float(accuracy) > 90


def test_example():
    printed = run(ROOT / "examples" / "03_all_reduce.py", "--ranks", "3").splitlines()
    lines = [re.fullmatch(r"rank \d: slope (.*), offset (.*)", line) for line in printed[:3]]
    assert len({line.groups() for line in lines}) == 1
    assert abs(float(lines[0][1]) - 2.5) < 0.05 and abs(float(lines[0][2]) + 1) < 0.05
    assert printed[3] == "the same bits everywhere"
    assert "--ranks" in run(ROOT / "examples" / "03_all_reduce.py", "--help")


@pytest.mark.parametrize("processes", [0, 2])
def test_own_source_example(processes):
    printed = run(ROOT / "examples" / "09_own_source.py", "--processes", processes)
    assert printed == "200 images, each used once in each of 2 epochs\n"
