#!/usr/bin/env python3
"""Runs `nlc train` over values of one option and over seeds; prints a table in Markdown.

    table.py PROGRAM --seeds 5
    table.py PROGRAM --vary mini-batch 1 4 16 64 128 --seeds 3 -- --rule sgd --epochs 10

Arguments after -- go to every run. A row has medians over the seeds, then each seed's test
accuracy. A training that diverged is "failed" there, and its reason is on standard error.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile


def run(program, options):
    """Returns the summary of one run, or None if the training failed."""
    with tempfile.TemporaryDirectory() as out:
        command = [program, "train", "--json", "--out", out, *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    last = json.loads(done.stdout.splitlines()[-1]) if done.stdout else None
    if last is None:
        raise SystemExit(f"run '{' '.join(command)}': no output, exit code {done.returncode}; the "
                         "reason is on standard error")
    return last if done.returncode == 0 else None


def row(title, summaries):
    seeds = " ".join(f"{100 * summary['test_accuracy']:.1f}" if summary else "failed"
                     for summary in summaries)
    if None in summaries:
        return f"| {title} | | | | | {seeds} |"

    def median(name):
        return statistics.median(summary[name] for summary in summaries)

    return (f"| {title} | {100 * median('test_accuracy'):.1f} | {100 * median('val_accuracy'):.1f} "
            f"| {median('samples_per_s'):,.0f} | {median('seconds'):.1f} | {seeds} |")


def parse_arguments():
    ours = sys.argv[1:]
    theirs = []
    if "--" in ours:
        at = ours.index("--")
        ours, theirs = ours[:at], ours[at + 1:]
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the program nlc")
    parser.add_argument("--vary", nargs="+", default=[], metavar=("OPTION", "VALUE"),
                        help="an option of nlc, without its dashes, and its values, a row for each")
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 1 on [%(default)s]")
    return parser.parse_args(ours), theirs


def main():
    arguments, theirs = parse_arguments()
    option, values = "options", ["defaults" if not theirs else " ".join(theirs)]
    if arguments.vary:
        option, *values = arguments.vary
    seeds = f"test, %, seeds 1 to {arguments.seeds}"
    print(f"| {option} | test, % | val, % | samples/s | s | {seeds} |")
    print("|---|---|---|---|---|---|")
    for value in values:
        varied = [f"--{option}", value] if arguments.vary else []
        summaries = [run(arguments.program, [*theirs, *varied, "--seed", str(seed)])
                     for seed in range(1, arguments.seeds + 1)]
        print(row(value, summaries), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
