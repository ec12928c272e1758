"""The tables of learners on a GPU, with programs that only pretend, and PyTorch on the CPU."""

import json
import pathlib
import subprocess
import sys

import pytest

TABLE = pathlib.Path(__file__).parents[2] / "examples" / "nlc" / "gpu_table.py"

NLC = """#!{python}
import json, sys
given = sys.argv
learners = int(given[given.index("--learners") + 1])
if learners == 2 and "--mini-batch" in given:
    sys.exit({code})
for t, samples in ((1, 0), (5, 4000 * learners)):
    print(json.dumps(dict(event="progress", t_s=t, samples=samples)))
print(json.dumps(dict(event="summary", test_accuracy=0.9, val_accuracy=0.8)))
"""
ALONE = """#!{python}
print("ready", flush=True)
input()
print(2000.0)
"""


@pytest.fixture
def run(tmp_path):
    data = tmp_path / "data.json"
    data.write_text(json.dumps({"train": [["one two", "a"], ["three", "b"]]}))

    def run(*options, code=1):
        for name, text in (("nlc", NLC), ("nlc_alone", ALONE)):
            program = tmp_path / name
            program.write_text(text.format(python=sys.executable, code=code))
            program.chmod(0o755)
        return subprocess.run(
            [sys.executable, TABLE, tmp_path / "nlc", tmp_path / "nlc_alone", "--data", data,
             "--learners", "1", "2", "--mini-batches", "2", "--seeds", "1", "--peer-device", "cpu",
             *options],
            capture_output=True, text=True, timeout=300)

    return run


@pytest.mark.slow
def test_what_fails_is_a_row_and_the_rest_is_measured(run):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    ended = run()
    assert ended.returncode == 1, ended.stderr
    assert "| 1 | 2 | 1,000 | 2,000 | 0.50 |" in ended.stdout
    assert "| 2 | 2 | failed | | |" in ended.stdout
    rows = [line.split(" | ") for line in ended.stdout.splitlines()]
    assert ["| one process", "| DDP over gloo, 2 processes"] == [
        row[0] for row in rows if row[0].startswith(("| one", "| DDP")) and row[1] == "2"]
    assert "| cuda | 1 | 90.0 | 80.0 |" in ended.stdout


def test_what_there_is_no_time_for_is_said(run):
    ended = run("--seconds", "0")
    assert ended.returncode == 0, ended.stderr
    assert "| 1 | 2 | no time | | |" in ended.stdout
    assert "| cpu | 4 | not measured | |" in ended.stdout


def test_without_a_gpu_it_ends_at_once(run):
    assert run("--learners", "2", code=4).returncode == 4
