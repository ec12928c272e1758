"""The benchmark of stops of a model on a GPU, tried out on the CPU."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

PROGRAM = pathlib.Path(__file__).parents[2] / "benchmarks" / "gpt2_stops.py"


def load():
    spec = importlib.util.spec_from_file_location("gpt2_stops", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def records(*parts):
    """Of steps of so many milliseconds each: (size, milliseconds)."""
    end_s, result = 5.0, []
    for size, lengths in parts:
        for length in lengths:
            end_s += length / 1000
            result.append({"end_s": end_s, "size": size})
    return result


def test_a_stop_is_what_the_longest_step_has_beyond_a_normal_one():
    normal = [10.0] * 12
    shared = [16.0] * 12
    told = records(
        (1, [90.0, *normal]),  # the first step counts for nothing
        (2, [30.0, *shared]),
        (1, [*normal[:2], 25.0, *normal]),
        (2, shared),
        (1, [*normal]))
    found = load().stops(told)
    assert [(one["from"], one["to"]) for one in found] == [(1, 2), (2, 1), (1, 2), (2, 1)]
    assert [round(one["stop"], 6) for one in found] == [14, 9, 0, 0]
    assert [round(one["before"], 6) for one in found] == [10, 16, 10, 16]
    assert [round(one["after"], 6) for one in found] == [16, 10, 16, 10]
    assert round(found[0]["longest"], 6) == 30


def test_the_version_is_that_of_the_library_that_ffdl_loads(monkeypatch):
    package = pytest.importorskip("nvidia.nccl", reason="NCCL is not installed")
    folder = pathlib.Path(package.__path__[0])
    header = (folder / "include" / "nccl.h").read_text()
    wanted = re.findall(r"#define NCCL_(?:MAJOR|MINOR|PATCH) +([0-9]+)", header)
    monkeypatch.setenv("NCCL_ROOT", str(folder))
    assert load().nccl_version() == tuple(map(int, wanted))
    monkeypatch.setenv("NCCL_ROOT", "/nowhere")
    with pytest.raises(OSError, match="/nowhere/libnccl.so.2"):
        load().nccl_version()


@pytest.mark.slow
def test_it_runs_on_the_cpu():
    ended = subprocess.run(
        [sys.executable, PROGRAM, "--device", "cpu", "--backend", "AUTO", "--layers", "1",
         "--width", "16", "--heads", "2", "--vocabulary", "32", "--context", "8", "--batch", "4",
         "--steps", "10"],
        capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    rows = re.findall(r"^\| (one .*?) \|(.*)\|$", ended.stdout, re.MULTILINE)
    assert [what for what, _ in rows] == [
        "one comes", "one leaves", "one comes", "one is killed"]
    for _, numbers in rows:
        before, after, longest, stop = map(float, numbers.split("|"))
        assert min(before, after, longest) > 0
        assert stop == pytest.approx(max(0, longest - max(before, after)), abs=0.2)
    assert "0 were lost, 0 used twice" in ended.stdout


@pytest.mark.slow
def test_without_a_gpu_it_says_so():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    ended = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 4 and "no GPU" in ended.stderr
