"""What an installed wheel can do with NumPy alone; ./dev check install runs it."""

import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

import ffdl


def run(*command):
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=120, check=True).stdout


def folds_a_gradient():
    server = ffdl.ParameterServer.create(
        parameters=10, rule=ffdl.UpdateRuleOptions(learning_rate=1.0))
    server.start()
    learner = ffdl.Learner.attach(server, timeout_s=10)
    learner.push(np.full(10, -1, np.float32), (0, 0, 1))
    learner.detach(timeout_s=10)
    assert (server.weights() == 1).all()


def has_the_command(program):
    """As a program and as a module, and both run the elastic program of docs/guide/start.md."""
    for ffdl_command in ([pathlib.Path(sys.executable).with_name("ffdl")],
                         [sys.executable, "-m", "ffdl"]):
        assert run(*ffdl_command, "--version").startswith(f"ffdl {ffdl.__version__}, with")
        # No environment is activated: the workers' Python is found all the same.
        printed = run(*ffdl_command, "run", "--workers", "1:2", program)
        ends = re.findall(r"^\[worker-\d\] slope 2.50, offset -1.00$", printed, re.MULTILINE)
        assert len(ends) == 2, printed


def asks_for_what_draws(folder):
    """Where there is no matplotlib, as in an environment of the wheel alone."""
    (folder / "run.jsonl").write_text("".join(
        f'{{"event": "step", "t_s": {step}, "step": {step}, "worker": 0, "samples": 1, "loss": 1.0}}\n'
        for step in range(3)))
    asked = subprocess.run(
        [pathlib.Path(sys.executable).with_name("ffdl"), "report", folder],
        capture_output=True, text=True, timeout=120, check=False)
    assert asked.returncode == 1 and "pip install matplotlib" in asked.stderr, asked


def main():
    assert "torch" not in sys.modules
    page = pathlib.Path(__file__).parents[2] / "docs" / "guide" / "start.md"
    (line,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "line.py"
        program.write_text(line)
        has_the_command(program)
        asks_for_what_draws(pathlib.Path(folder))
    folds_a_gradient()
    print(f"ffdl {ffdl.__version__} from {ffdl.__file__}: a gradient folded, two jobs run")


if __name__ == "__main__":
    main()
