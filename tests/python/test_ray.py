"""Elastic training by Ray actors, one of which is killed; the example is the program."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "12_ray.py"


def why_missing():
    """Imported by another process: this one treats the warnings of others as errors."""
    ran = subprocess.run(
        [sys.executable, "-c", "import torch, ray"], capture_output=True, text=True, timeout=120,
        check=False)
    return "" if ran.returncode == 0 else ran.stderr.strip().splitlines()[-1]


WHY_MISSING = why_missing()
pytestmark = pytest.mark.skipif(bool(WHY_MISSING), reason=WHY_MISSING or "none")


def train(*arguments):
    """Returns what the example has told."""
    ran = subprocess.run(
        [sys.executable, str(EXAMPLE), *map(str, arguments)], capture_output=True, text=True,
        timeout=240, check=False,
        env=os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('{"')]


@pytest.mark.slow
def test_a_killed_actor_comes_again_and_the_weights_have_the_same_bits():
    (alone,) = train("--workers", 1, "--steps", 1500)
    killed, *ends = train("--workers", 2, "--min-workers", 2, "--steps", 1500, "--kill-at", 300)
    assert killed == {"killed": "worker-0"}
    assert [one["worker"] for one in ends] == ["worker-0", "worker-1"]
    assert [one["main"] for one in ends].count(True) == 1
    for one in ends:
        assert (one["finished"], one["weights"]) == (1500, alone["weights"])
