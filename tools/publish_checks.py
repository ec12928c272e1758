#!/usr/bin/env python3
"""Turns the results of ./dev check all into their page, which is not edited by hand.

usage: publish_checks.py build/checks/COMMIT.json PAGE
"""

import argparse
import json
import pathlib


def minutes(seconds):
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"


def page(results):
    machine = results["machine"]
    lines = [
        "# Checks",
        "",
        f"Machine: {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['memory_bytes'] / 2**30:.0f} GiB, {machine['kernel']}. "
        f"Commit: {results['commit'][:8]}.",
        "",
        "Command: `./dev check all` ([testing](../internals/testing.md#dev-check-all)).",
        "",
        "| step | command | result | time | began |",
        "|---|---|---|---|---|",
    ]
    notes = []
    for name, record in results["steps"].items():
        why = f", {record['why']}" if record["why"] else ""
        lines.append(f"| {name} | `{record['command']}` | {record['verdict']}{why} | "
                     f"{minutes(record['seconds'])} | {record['date']} |")
        failed = [one for before in [*record["earlier_failures"], record] for one in before["failed"]]
        notes += [f"- {name}: failed: {one['test']} ({one['how']}), `{one['command']}`"
                  for one in failed]
        notes += [f"- {name}: tried again: {one}" for one in record["tried_again"]]
        notes += [f"- {name}: skipped: {one}" for one in record["skipped"]]
    if notes:
        lines += ["", "Failed, tried again or skipped:", "", *notes]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path, help="JSON, as ./dev check all writes it")
    parser.add_argument("page", type=pathlib.Path, help="the page to write")
    arguments = parser.parse_args()
    arguments.page.write_text(page(json.loads(arguments.results.read_text())))


if __name__ == "__main__":
    main()
