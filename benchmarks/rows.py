"""The rows of a benchmark that is a Python program; benchmarks/README.md describes them."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tools")]
import machine  # noqa: E402


def row(name, value, unit, *, limit=None, limit_is="", note="", larger_is_better=False,
        bounds=(None, None)):
    """A row of the form of benchmarks/harness; the limit is the target of the figure."""
    met = None
    if value is not None and limit is not None:
        met = value >= limit if larger_is_better else value <= limit
    ratio = None
    if value and limit:
        ratio = value / limit if larger_is_better else limit / value
    return {"name": name, "value": value, "unit": unit, "limit": limit, "limit_is": limit_is,
            "ratio": ratio, "lo": bounds[0], "hi": bounds[1], "disturbed": False, "note": note,
            **({} if met is None else {"target": 1.0, "met": met})}


def publish(rows, command, file):
    """Writes the rows as JSON to a file, and prints them as a table."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, check=True,
                            stdout=subprocess.PIPE, text=True).stdout.strip()
    report = {"machine": machine.facts(), "commit": commit, "date": machine.date(),
              "command": command, "void": False, "rows": rows}
    file.write_text(json.dumps(report, indent=2) + "\n")
    for one in rows:
        value = "none" if one["value"] is None else f"{one['value']:.4g}"
        limit = "" if one["limit"] is None else f"{one['limit']:.4g}"
        bounds = "" if one["lo"] is None else f"{one['lo']:.4g} to {one['hi']:.4g}"
        verdict = {True: "met", False: "MISSED"}.get(one.get("met"), "")
        print(f"{one['name']:32} {value:>8} {one['unit']:9} {limit:>6} {bounds:20} {verdict} "
              f"{one['note']}".rstrip())
