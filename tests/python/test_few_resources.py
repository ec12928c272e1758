"""Few descriptors, threads or little memory: each call works or names the limit; the process lives."""

import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = str(pathlib.Path(__file__).with_name("few_resources.py"))
PARTS = ["store", "client", "server", "session", "ring", "shm", "tcp", "gloo"]
LIMITS = {"descriptors": ("ulimit -n", "file-max"), "threads": ("ulimit -u",),
          "memory_mib": ("ulimit -v",)}
NO_THREAD_DATA = "cannot allocate memory for thread-local data: ABORT"


def outcomes(part, what, values):
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    words = [sys.executable, PROGRAM, part, what, *map(str, values)]
    done = subprocess.run(
        words, capture_output=True, text=True, env=os.environ | one_thread, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(values), done.stderr
    return [line.split(" ", 1)[1] for line in lines]


def expect_clear(part, what, values):
    """Each works, or is Exhausted and names what to raise; Python itself may have no memory left.

    The C library ends a process whose thread has no memory for a library's variables, before the
    thread could report anything.
    """
    found = outcomes(part, what, values)
    for value, outcome in zip(values, found, strict=True):
        if outcome == "works":
            continue
        if what == "memory_mib" and outcome.startswith("MemoryError: "):
            continue
        if what == "memory_mib" and outcome.startswith("exit 127: ") and NO_THREAD_DATA in outcome:
            continue
        assert outcome.startswith("Exhausted: "), (part, value, outcome)
        assert any(word in outcome for word in LIMITS[what]), (part, value, outcome)
        assert "; " in outcome, (part, value, outcome)
    return found


@pytest.mark.parametrize("part", PARTS)
def test_few_descriptors(part):
    found = expect_clear(part, "descriptors", [4, 9, 11, 12, 15, 20, 48])
    assert found[-1] == "works" and found[0] != "works"


@pytest.fixture
def only_root():
    if os.getuid() != 0:
        pytest.skip("only root becomes a user that has no process yet")


@pytest.mark.parametrize("part", ["store", "client", "server", "session", "gloo"])
def test_few_threads(part, only_root):
    found = expect_clear(part, "threads", [1, 2, 3, 4, 12])
    assert found[-1] == "works" and "ulimit -u" in found[0]


@pytest.mark.parametrize("part", PARTS)
def test_little_memory(part):
    assert expect_clear(part, "memory_mib", [1, 16, 40, 2000])[-1] == "works"


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_every_number_of_descriptors(part):
    expect_clear(part, "descriptors", range(4, 65))


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_every_number_of_threads(part, only_root):
    expect_clear(part, "threads", range(1, 17))


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_every_size_of_memory(part):
    expect_clear(part, "memory_mib", range(1, 257, 5))
