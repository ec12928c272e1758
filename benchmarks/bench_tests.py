#!/usr/bin/env python3
"""Measures the house itself: its tests' time and coverage, and the size of its doors.

    ./dev bench tests           the counts, the coverage, and a new clone's ./dev test
    ./dev bench tests --slow    a new clone's .ci/run too: about an hour

A clone has a compiler cache of its own, empty at first, and installs what it lacks. Debian's packages
are on the machine before. Each time is of one run, so it has no bounds.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "tidy")]
import layers  # noqa: E402
import picture  # noqa: E402
import source  # noqa: E402
from rows import publish, row  # noqa: E402


def count_house():
    headers = sorted((ROOT / "include" / "ffdl").rglob("*.h"))
    types = [name for header in headers for name in source.public_types(header.read_text())]
    text = {path.relative_to(ROOT).as_posix(): path.read_text()
            for path in ROOT.glob("src/**/*") if path.suffix in (".h", ".cc")}
    uses = picture.uses_of(text)
    picture.levels_of(uses)  # raises on a circle
    upward = [(one, other) for one, others in uses.items() for other in others
              if other not in (*layers.INTERNAL[one], *layers.PUBLIC.get(one, ()))
              and one != "cli"]  # the command may know all
    return [
        row("house/public_headers", len(headers), "headers", limit=40, limit_is="the plan"),
        row("house/public_types", len(types), "types", limit=110, limit_is="the plan",
            note="classes, structs and enums of include/ffdl, nested ones included"),
        row("house/upward_includes", len(upward), "includes", limit=0, limit_is="the plan"),
    ]


def logged(command, log, **options):
    """Runs a command and returns its minutes; raises where it fails."""
    began = time.monotonic()
    with open(log, "w", encoding="utf-8") as out:
        subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                       check=True, **options)
    return (time.monotonic() - began) / 60


def measure_coverage(folder):
    """Lines and branches of src and include that the C++ tests run, by gcovr."""
    gcovr = [sys.executable, "-m", "gcovr"]
    logged(["cmake", "--preset", "coverage"], folder / "coverage-configure.log", cwd=ROOT)
    logged(["cmake", "--build", "--preset", "coverage"], folder / "coverage-build.log", cwd=ROOT)
    tests = subprocess.run(["ctest", "--preset", "coverage"], cwd=ROOT, check=False,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    (folder / "coverage-tests.log").write_text(tests.stdout)
    summary = folder / "coverage.json"
    logged([*gcovr, "--root", str(ROOT), "--filter", "src/", "--filter", "include/",
            "--exclude-throw-branches", "--gcov-ignore-errors=no_working_dir_found",
            "--gcov-ignore-parse-errors=suspicious_hits.warn",
            "--json-summary", str(summary), str(ROOT / "build" / "coverage")],
           folder / "coverage-gcovr.log", cwd=ROOT)
    figures = json.loads(summary.read_text())
    note = "" if tests.returncode == 0 else "some tests failed: see coverage-tests.log"
    return [
        row("tests/coverage_lines", figures["line_percent"], "%", note=note),
        row("tests/coverage_branches", figures["branch_percent"], "%",
            note="without those of exceptions"),
    ]


def clone(folder):
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    return {**os.environ, "CCACHE_DIR": str(folder / "build" / "ccache")}


def measure_clone(folder, name, command, limit, limit_is):
    """The minutes from a clone to the end of that command in it."""
    began = time.monotonic()
    environment = clone(folder / name)
    log = folder / f"{name}.log"
    try:
        logged(command, log, cwd=folder / name, env=environment)
    except subprocess.CalledProcessError as error:
        return row(f"tests/{name}_minutes", None, "min", limit=limit, limit_is=limit_is,
                   note=f"{' '.join(command)} ended with {error.returncode}: see {log}")
    return row(f"tests/{name}_minutes", (time.monotonic() - began) / 60, "min", limit=limit,
               limit_is=limit_is)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=pathlib.Path, required=True, help="the file to write")
    parser.add_argument("--slow", action="store_true", help="a new clone's .ci/run too")
    parser.add_argument("--only", action="append", choices=["house", "coverage", "fresh", "ci"],
                        help="this part alone; may be repeated")
    arguments = parser.parse_args()
    parts = arguments.only or ["house", "coverage", "fresh", *(["ci"] if arguments.slow else [])]
    folder = arguments.json.resolve().parent / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    if "house" in parts:
        rows += count_house()
    if "coverage" in parts:
        rows += measure_coverage(folder)
    if "fresh" in parts:
        rows.append(measure_clone(folder, "fresh", ["./dev", "test"], 15,
                                  "the README's command, from clone to end"))
    if "ci" in parts:
        rows.append(measure_clone(folder, "ci", [".ci/run"], 40, "all checks, from clone to end"))
    publish(rows, "bench_tests " + " ".join(f"--only {part}" for part in parts), arguments.json)
    return 0 if all(one["value"] is not None for one in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
