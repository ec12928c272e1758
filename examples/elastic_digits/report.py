#!/usr/bin/env python3
"""Draws a run of the elastic example: loss, throughput and workers over time, with its events.

    report.py elastic-run/run.jsonl --out run.png
"""

import argparse
import json

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the choice of the backend)

ALONE, ELASTIC = "#999999", "#4c72b0"
WORDS = {"start": "starts", "kill": "killed", "leave": "asked to leave"}
COLOURS = {"start": "#308040", "kill": "#b03030", "leave": "#b07030"}
SMOOTH_S = 0.2


def read(path):
    """Reads all lines of the file; a line may be incomplete if its worker was killed."""
    lines = open(path, encoding="utf-8").read().split("\n")
    events = []
    for line in filter(None, lines):
        try:
            events.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return events


def steps_of(events, run):
    """Returns by step: (time of the first worker, mean loss, samples, workers)."""
    steps = {}
    for event in events:
        if event["event"] != "step" or event["run"] != run:
            continue
        one = steps.setdefault(event["step"], {"t_s": event["t_s"], "sum": 0.0, "samples": 0})
        one["t_s"] = min(one["t_s"], event["t_s"])
        one["sum"] += event["loss"] * event["samples"]
        one["samples"] += event["samples"]
        one["workers"] = event["workers"]
    return [dict(steps[number], loss=steps[number]["sum"] / max(steps[number]["samples"], 1))
            for number in sorted(steps)]


def throughput(steps):
    """Returns samples per second in windows of SMOOTH_S."""
    windows = {}
    for step in steps:
        windows.setdefault(int(step["t_s"] / SMOOTH_S), []).append(step["samples"])
    last = max(windows)
    times = [(window + 0.5) * SMOOTH_S for window in range(last)]
    return times, [sum(windows.get(window, [])) / SMOOTH_S for window in range(last)]


def smoothed(values, width=40):
    return [sum(values[max(0, i - width):i + 1]) / len(values[max(0, i - width):i + 1])
            for i in range(len(values))]


def draw(events, out):
    figure, (loss, speed, workers) = plt.subplots(
        3, 1, figsize=(10, 7), height_ratios=(3, 3, 1), constrained_layout=True)
    alone, elastic = steps_of(events, "alone"), steps_of(events, "elastic")
    loss.plot(smoothed([step["loss"] for step in alone]), color=ALONE, linewidth=4,
              label="one worker all the time")
    loss.plot(smoothed([step["loss"] for step in elastic]), color=ELASTIC, linewidth=1.2,
              label="workers that join, die and leave")
    loss.set(yscale="log", xlabel="step", ylabel="training loss")
    loss.legend(frameon=False)
    speed.plot(*throughput(elastic), color=ELASTIC)
    speed.set(ylabel="samples/s")
    speed.set_ylim(0, 1.15 * speed.get_ylim()[1])  # room for the events
    workers.step([step["t_s"] for step in elastic], [step["workers"] for step in elastic],
                 where="post", color=ELASTIC)
    workers.set(xlabel="seconds", ylabel="workers", ylim=(0, 2.5), yticks=(0, 1, 2))
    for axis in (speed, workers):
        axis.set_xlim(0, elastic[-1]["t_s"])
    for event in events:
        if event["run"] != "elastic" or event["event"] not in WORDS or event["t_s"] < 0.01:
            continue
        for axis in (speed, workers):
            axis.axvline(event["t_s"], color=COLOURS[event["event"]], linestyle="--", linewidth=1)
        speed.annotate(f"worker {event['worker']} {WORDS[event['event']]}", (event["t_s"], 1),
                       xycoords=("data", "axes fraction"), xytext=(3, -12),
                       textcoords="offset points", fontsize=8, color=COLOURS[event["event"]])
    ends = {event["run"]: event["test_accuracy"] for event in events if event["event"] == "end"}
    loss.set_title("test accuracy: " + ", ".join(
        f"{100 * ends[run]:.1f} % {run}" for run in ("alone", "elastic") if run in ends),
        fontsize=10)
    figure.savefig(out, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="run.jsonl of a run")
    parser.add_argument("--out", default="run.png", help="the picture (default: %(default)s)")
    arguments = parser.parse_args()
    draw(read(arguments.run), arguments.out)


if __name__ == "__main__":
    main()
