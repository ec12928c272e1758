"""The README's Python programs, and the example, run and print what they should."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def run(*command):
    return subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, timeout=60, check=True
    ).stdout


@pytest.mark.parametrize(
    ("number", "printed"), [(0, "the first weight is 3.0\n"), (1, "the sum is 3.0\n")]
)
def test_readme_program(number, printed, tmp_path):
    programs = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(programs) == 2
    program = tmp_path / "program.py"
    program.write_text(programs[number])
    assert run(program) == printed


def test_example():
    printed = run(ROOT / "examples" / "03_all_reduce.py", "--ranks", "3").splitlines()
    lines = [re.fullmatch(r"rank \d: slope (.*), offset (.*)", line) for line in printed[:3]]
    assert len({line.groups() for line in lines}) == 1
    assert abs(float(lines[0][1]) - 2.5) < 0.05 and abs(float(lines[0][2]) + 1) < 0.05
    assert printed[3] == "the same bits everywhere"
    assert "--ranks" in run(ROOT / "examples" / "03_all_reduce.py", "--help")
