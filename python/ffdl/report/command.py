"""The command ``ffdl report``."""

from __future__ import annotations

import argparse
import pathlib
import sys

from ..errors import Error
from .page import draw, page
from .summary import read_events, summarise


def main(arguments: list[str]) -> int:
    """Returns the exit code: 0 drawn; 1 no such run, or nothing to draw; 2 wrong command line."""
    parser = argparse.ArgumentParser(
        prog="ffdl report", description="Draw throughput, stalls, staleness and loss of a run in "
        "report.png, and in report.html, which needs no other file.")
    parser.add_argument("run", type=pathlib.Path, metavar="RUN",
                        help="the folder that a run wrote lines of JSON to, or its file")
    parser.add_argument("--out", type=pathlib.Path,
                        help="folder for report.png and report.html (default: that of the run)")
    given = parser.parse_args(arguments)
    try:
        summary = summarise(read_events(given.run), given.run.resolve().name)
        picture = draw(summary)
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        print("ffdl: draw a report: matplotlib is not installed; pip install matplotlib",
              file=sys.stderr)
        return 1
    except Error as error:
        print(f"ffdl: {error}", file=sys.stderr)
        return 1
    out = given.out or (given.run if given.run.is_dir() else given.run.parent)
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.png").write_bytes(picture)
    (out / "report.html").write_text(page(summary, picture), encoding="utf-8")
    for name, value in summary.numbers:
        print(f"{name}: {value}")
    print(out / "report.html")
    return 0
