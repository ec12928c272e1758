"""The command ``ffdl`` and ``python -m ffdl``: the program in C++, which the wheel carries."""

import os
import pathlib
import sys


def main() -> int:
    """Becomes the program; its workers are run by this Python. Only reports are drawn here."""
    if sys.argv[1:2] == ["report"]:
        from .report.command import main as report

        return report(sys.argv[2:])
    program = pathlib.Path(__file__).with_name("bin") / "ffdl"
    os.environ.setdefault("PYTHON_EXEC", sys.executable)
    try:
        os.execv(program, ["ffdl", *sys.argv[1:]])
    except OSError as error:
        print(f"ffdl: run '{program}': {error.strerror}; install ffdl again", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
