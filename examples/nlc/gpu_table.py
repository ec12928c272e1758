#!/usr/bin/env python3
"""Measures `nlc train --device cuda` and prints tables in Markdown.

    gpu_table.py NLC NLC_ALONE --data data_full.json

The first table has samples/s for 1 to 8 learners on one GPU and mini-batches of 1 to 16, beside learners
that compute the same and talk to nobody (NLC_ALONE), as many at once; the second the accuracy beside the
processor's. Exit codes: 1 a run failed, 4 there is no GPU or library (the reason is on standard error).
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile

NO_DEVICE = 4


def fail(command, code):
    print(f"gpu_table.py: run '{' '.join(command)}': exit code {code}; the reason is above",
          file=sys.stderr)
    raise SystemExit(NO_DEVICE if code == NO_DEVICE else 1)


def train(program, options):
    """The events of a run."""
    with tempfile.TemporaryDirectory() as out:
        command = [program, "train", "--json", "--out", out, *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        fail(command, done.returncode)
    return [json.loads(line) for line in done.stdout.splitlines()]


def speed(program, options):
    """Samples/s between a run's first look at the weights and its last: without the start of the learners."""
    epochs = 4
    while True:
        events = train(program, [*options, "--epochs", str(epochs)])
        looks = [event for event in events if event["event"] == "progress"]
        seconds = looks[-1]["t_s"] - looks[0]["t_s"] if len(looks) > 1 else 0
        if seconds >= 3:
            return (looks[-1]["samples"] - looks[0]["samples"]) / seconds
        epochs *= 4 if seconds < 1 else 2


def ideal(program, data, learners, mini_batch, mini_batches):
    """Samples/s of so many learners that talk to nobody, all at once."""
    command = [program, "--data", data, "--mini-batch", str(mini_batch),
               "--mini-batches", str(mini_batches)]
    alone = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
             for _ in range(learners)]
    try:
        ready = [process.stdout.readline() for process in alone]
        for process, line in zip(alone, ready):
            if line != "ready\n":
                fail(command, process.wait())
        for process in alone:
            process.stdin.write("\n")
            process.stdin.flush()
        speeds = [float(process.stdout.readline() or "nan") for process in alone]
        for process in alone:
            if process.wait() != 0:
                fail(command, process.returncode)
    finally:
        for process in alone:
            process.kill()
    return sum(speeds)


def speeds(arguments):
    print("| learners | mini-batch | samples/s | without a server, samples/s | ratio |")
    print("|---|---|---|---|---|")
    for learners in arguments.learners:
        for mini_batch in arguments.mini_batches:
            options = ["--data", arguments.data, "--device", "cuda", "--learners", str(learners),
                       "--mini-batch", str(mini_batch), "--threads", str(arguments.threads)]
            ours = statistics.median(speed(arguments.nlc, options)
                                     for _ in range(arguments.repeats))
            best = statistics.median(
                ideal(arguments.alone, arguments.data, learners, mini_batch, 4000)
                for _ in range(arguments.repeats))
            print(f"| {learners} | {mini_batch} | {ours:,.0f} | {best:,.0f} | {ours / best:.2f} |",
                  flush=True)


def accuracies(arguments):
    print("\n| device | learners | test, % | val, % |")
    print("|---|---|---|---|")
    for device, learners in (("cpu", 1), ("cpu", 4), ("cuda", 1), ("cuda", 4)):
        ends = [train(arguments.nlc, ["--data", arguments.data, "--device", device, "--learners",
                                      str(learners), "--seed", str(seed)])[-1]
                for seed in range(1, arguments.seeds + 1)]
        test = 100 * statistics.median(end["test_accuracy"] for end in ends)
        val = 100 * statistics.median(end["val_accuracy"] for end in ends)
        print(f"| {device} | {learners} | {test:.1f} | {val:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nlc", help="the program nlc")
    parser.add_argument("alone", help="the program nlc_alone")
    parser.add_argument("--data", required=True, help="as of nlc")
    parser.add_argument("--learners", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--mini-batches", type=int, nargs="+", default=[1, 2, 4, 8, 16],
                        help="samples per gradient")
    parser.add_argument("--threads", type=int, default=2, help="of the server [%(default)s]")
    parser.add_argument("--repeats", type=int, default=1,
                        help="of each speed, of which the median is taken [%(default)s]")
    parser.add_argument("--seeds", type=int, default=3,
                        help="of each accuracy, of which the median is taken [%(default)s]")
    arguments = parser.parse_args()
    speeds(arguments)
    accuracies(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
