"""The command ``ffdl``, also ``python -m ffdl``, which runs the C++ program in the wheel."""

import os
import pathlib
import sys


def main() -> int:
    """Replaces this process with the C++ program, which starts workers with this interpreter.

    This process itself runs ``report``, ``checkpoint``, and ``simulate`` with a picture, because
    these commands are written in Python.
    """
    if sys.argv[1:2] == ["report"]:
        from .report.command import main as report

        return report(sys.argv[2:])
    if sys.argv[1:2] == ["checkpoint"]:
        from .checkpoints.command import main as checkpoint

        return checkpoint(sys.argv[2:])
    program = pathlib.Path(__file__).with_name("bin") / "ffdl"
    if sys.argv[1:2] == ["simulate"]:
        from .report.cluster import main as simulate
        from .report.cluster import picture_of

        if picture_of(sys.argv[2:]):
            return simulate(program, sys.argv[1:])
    os.environ.setdefault("PYTHON_EXEC", sys.executable)
    try:
        os.execv(program, ["ffdl", *sys.argv[1:]])
    except OSError as error:
        print(f"ffdl: run '{program}': {error.strerror}; install ffdl again", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
