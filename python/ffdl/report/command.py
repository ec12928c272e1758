"""The command ``ffdl report``."""

from __future__ import annotations

import argparse
import pathlib
import sys

from ..errors import Error
from .page import draw, page
from .summary import read_events, summarise


def main(arguments: list[str]) -> int:
    """Returns the exit code: 0 if the run was drawn, else 1. Wrong arguments: SystemExit(2)."""
    parser = argparse.ArgumentParser(
        prog="ffdl report", description="Draw plots of the throughput, stalls, staleness and "
        "loss of a run. Write them to report.png, and to report.html, which needs no other file.")
    parser.add_argument("run", type=pathlib.Path, metavar="RUN",
                        help="folder with the .jsonl files of the run, or one such file")
    parser.add_argument("--out", type=pathlib.Path,
                        help="folder for report.png and report.html (default: the run's folder)")
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
