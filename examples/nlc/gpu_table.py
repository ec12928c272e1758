#!/usr/bin/env python3
"""Measures `nlc train --device cuda` and prints tables in Markdown.

    gpu_table.py NLC NLC_ALONE --data data_full.json

The first table has samples/s for 1 to 8 learners on one GPU and mini-batches of 1 to 16. Beside
them are as many learners that compute the same without a server (NLC_ALONE). The second has those
of PyTorch (torch_peer.py), if this Python has it. The third has the accuracy beside the
processor's. With --seconds rows without time are left out, and named. Exit codes: 1 a run failed, 4
there is no GPU or library (the reason is on standard error).
"""

import argparse
import importlib.util
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

NO_DEVICE = 4
RUN_MAX_S = 300
PEER = pathlib.Path(__file__).with_name("torch_peer.py")
# The shares of the time at which each table ends.
SPEEDS_END, PEERS_END = 0.5, 0.8


class Clock:
    """Tracks the rest of the time, and whether all runs have succeeded so far."""

    def __init__(self, seconds):
        self._begin = time.monotonic()
        self._seconds = seconds
        self.has_failed = False

    def left(self, share=1.0):
        """Returns the seconds until this share of the time is over."""
        return self._begin + share * self._seconds - time.monotonic()


class RunFailed(Exception):
    pass


def fail(command, code):
    print(f"gpu_table.py: run '{' '.join(command)}': exit code {code}; the reason is above",
          file=sys.stderr)
    if code == NO_DEVICE:
        raise SystemExit(NO_DEVICE)
    raise RunFailed


def train(program, options):
    """Returns the events of a run."""
    with tempfile.TemporaryDirectory() as out:
        command = [program, "train", "--json", "--out", out, *options]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False,
                                  timeout=RUN_MAX_S)
        except subprocess.TimeoutExpired:
            fail(command, f"none in {RUN_MAX_S} s")
    if done.returncode != 0:
        fail(command, done.returncode)
    return [json.loads(line) for line in done.stdout.splitlines()]


def speed(program, options):
    """Returns samples/s between a run's first and last validation: without the learners' start."""
    epochs = 4
    while True:
        events = train(program, [*options, "--epochs", str(epochs)])
        looks = [event for event in events if event["event"] == "progress"]
        seconds = looks[-1]["t_s"] - looks[0]["t_s"] if len(looks) > 1 else 0
        if seconds >= 3:
            return (looks[-1]["samples"] - looks[0]["samples"]) / seconds
        epochs = math.ceil(epochs * 3.5 / max(seconds, 0.2))


def ideal(program, data, learners, mini_batch, mini_batches):
    """Returns samples/s of that many learners without a server, all at once."""
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


def speeds(arguments, clock):
    """Returns samples/s by learners and mini-batch."""
    print("| learners | mini-batch | samples/s | without a server, samples/s | ratio |")
    print("|---|---|---|---|---|", flush=True)
    measured = {}
    for mini_batch in arguments.mini_batches:
        for learners in arguments.learners:
            if clock.left(SPEEDS_END) < 0:
                print(f"| {learners} | {mini_batch} | no time | | |", flush=True)
                continue
            options = ["--data", arguments.data, "--device", "cuda", "--learners", str(learners),
                       "--mini-batch", str(mini_batch), "--threads", str(arguments.threads)]
            try:
                ours = statistics.median(speed(arguments.nlc, options)
                                         for _ in range(arguments.repeats))
                best = statistics.median(
                    ideal(arguments.alone, arguments.data, learners, mini_batch, 4000)
                    for _ in range(arguments.repeats))
            except RunFailed:
                clock.has_failed = True
                print(f"| {learners} | {mini_batch} | failed | | |", flush=True)
                continue
            print(f"| {learners} | {mini_batch} | {ours:,.0f} | {best:,.0f} | {ours / best:.2f} |",
                  flush=True)
            measured[learners, mini_batch] = ours
    return measured


def run_peer(arguments, processes, options, seconds):
    """Returns PyTorch's samples/s by mini-batch, as far as measured, and its error or None."""
    command = [sys.executable, str(PEER), "--data", arguments.data,
               "--device", arguments.peer_device, "--processes", str(processes), "--seconds", "1",
               *options, "--mini-batches", *map(str, arguments.mini_batches)]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as log:
        try:
            code = subprocess.run(command, stdout=out, stderr=log, check=False,
                                  timeout=max(1, seconds)).returncode
            failure = None if code == 0 else f"exit code {code}"
        except subprocess.TimeoutExpired:
            failure = "no time"
        out.seek(0)
        log.seek(0)
        lines = log.read().splitlines()
        if failure is not None and lines:
            print("\n".join(lines[-20:]), file=sys.stderr)
            failure += f": {next(line for line in reversed(lines) if line.strip())}"
        found = [json.loads(line) for line in out if line.endswith("\n")]
    return {one["mini_batch"]: one["samples_per_s"] for one in found}, failure


def peers(arguments, clock, ours):
    print("\n| PyTorch | mini-batch | samples/s | ours, of it |")
    print("|---|---|---|---|", flush=True)
    if importlib.util.find_spec("torch") is None:
        print("\nNot measured: this Python has no PyTorch.", flush=True)
        return
    failures = []
    for processes in arguments.learners:
        what = "one process" if processes == 1 else f"DDP over gloo, {processes} processes"
        for options in ([], ["--dense"]):
            found, failure = run_peer(arguments, processes, options, clock.left(PEERS_END))
            if found or clock.left(PEERS_END) < 0:
                break
            failures.append(f"{what}{', dense' * bool(options)}: {failure}")
        if options:
            what += ", dense gradients"
        if failure is not None and found:
            failures.append(f"{what}: {failure}")
        for mini_batch, theirs in found.items():
            mine = ours.get((processes, mini_batch))
            ratio = f"{mine / theirs:.2f}" if mine else ""
            print(f"| {what} | {mini_batch} | {theirs:,.0f} | {ratio} |", flush=True)
        if not found:
            print(f"| {what} | | not measured | |", flush=True)
    for failure in failures:
        print(f"\n- {failure}", flush=True)


def accuracies(arguments, clock):
    print("\n| device | learners | test, % | val, % |")
    print("|---|---|---|---|", flush=True)
    for device, learners in (("cuda", 1), ("cuda", 4), ("cpu", 1), ("cpu", 4)):
        ends = []
        for seed in range(1, arguments.seeds + 1):
            if clock.left() < 0:
                continue
            try:
                ends.append(train(arguments.nlc, [
                    "--data", arguments.data, "--device", device, "--learners", str(learners),
                    "--seed", str(seed)])[-1])
            except RunFailed:
                clock.has_failed = True
        if not ends:
            print(f"| {device} | {learners} | not measured | |", flush=True)
            continue
        test = 100 * statistics.median(end["test_accuracy"] for end in ends)
        val = 100 * statistics.median(end["val_accuracy"] for end in ends)
        print(f"| {device} | {learners} | {test:.1f} | {val:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nlc", help="the program nlc")
    parser.add_argument("alone", help="the program nlc_alone")
    parser.add_argument("--data", required=True, help="the data of nlc")
    parser.add_argument("--learners", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--mini-batches", type=int, nargs="+", default=[16, 1, 4, 2, 8],
                        help="samples per gradient, the most important first")
    parser.add_argument("--threads", type=int, default=2,
                        help="threads of the server [%(default)s]")
    parser.add_argument("--repeats", type=int, default=1,
                        help="measurements of each speed; the median counts [%(default)s]")
    parser.add_argument("--seeds", type=int, default=3,
                        help="seeds of each accuracy; the median counts [%(default)s]")
    parser.add_argument("--peer-device", default="cuda",
                        help="the device of PyTorch; cpu is for a trial")
    parser.add_argument("--seconds", type=float, default=86400,
                        help="time after which nothing more is started, with --seeds 1")
    arguments = parser.parse_args()
    clock = Clock(arguments.seconds)
    if arguments.seconds < 3600:
        arguments.seeds = 1
    ours = speeds(arguments, clock)
    peers(arguments, clock, ours)
    accuracies(arguments, clock)
    return 1 if clock.has_failed else 0


if __name__ == "__main__":
    sys.exit(main())
