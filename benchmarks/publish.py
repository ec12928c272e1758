#!/usr/bin/env python3
"""Turns a benchmark's JSON into its page under docs/results, which is not edited by hand.

    benchmarks/publish.py build/bench/ps.json docs/results/ps.md
"""

import argparse
import json
from pathlib import Path


def figure(value):
    return "" if value is None else f"{value:.4g}"


def verdict(row):
    if row.get("disturbed"):
        return "disturbed"
    return {True: "met", False: "missed"}.get(row.get("met"), "")


def page(run):
    machine = run["machine"]
    lines = [
        f"# {Path(run['command'].split()[0]).name}",
        "",
        f"Machine: {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['memory_bytes'] / 2**30:.0f} GiB, {machine['kernel']}. "
        f"Date: {run['date']}. Commit: {run['commit']}.",
        "",
        f"Command: `{run['command']}`, as `./dev bench` runs it. "
        "[benchmarks/README.md](../../benchmarks/README.md) explains the figures; "
        "a ratio of 1 is the limit.",
        "",
    ]
    if any(row["lo"] is not None and row["ratio"] is None for row in run["rows"]):
        lines += [
            "The column `95 %` has the 95 % confidence interval of the ratio. A row without a ratio has",
            "bounds of its value there instead, which its note below names: for example, the smallest",
            "(least) and the largest (most) of all measured values.",
            "",
        ]
    if run["void"]:
        lines += ["**Void:** a contender measured against itself did not give 1.", ""]
    lines += [
        "| row | value | unit | limit | ratio | 95 % | target | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    notes = []
    for row in run["rows"]:
        bounds = f"{figure(row['lo'])} to {figure(row['hi'])}" if row["lo"] is not None else ""
        cells = [f"`{row['name']}`", figure(row["value"]), row["unit"] or "", figure(row["limit"]),
                 figure(row["ratio"]), bounds, figure(row.get("target")), verdict(row)]
        lines.append("| " + " | ".join(cells) + " |")
        about = "; ".join(text for text in (row["limit_is"], row["note"]) if text)
        if about:
            notes.append(f"- `{row['name']}`: {about}")
    return "\n".join(lines + ["", "Limits and notes:", "", *notes, ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", type=Path, help="what ./dev bench wrote")
    parser.add_argument("page", type=Path, help="the page to write")
    arguments = parser.parse_args()
    arguments.page.parent.mkdir(parents=True, exist_ok=True)
    arguments.page.write_text(page(json.loads(arguments.json.read_text())))


if __name__ == "__main__":
    main()
