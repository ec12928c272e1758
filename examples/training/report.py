#!/usr/bin/env python3
"""Draws a run of an example: loss, accuracy and throughput over time.

    report.py digits-run/run.jsonl --out run.png
"""

import argparse
import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the choice of the backend)

TRAIN, VALIDATION, TEST, THROUGHPUT = "#4c72b0", "#dd8452", "#c44e52", "#55a868"
EVENT_COLOURS = {"kill": "#b03030", "death": "#b03030", "restart": "#308040"}


def read_events(path):
    """Reads all lines of the file; the last may be incomplete if the run was killed."""
    events = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                events.append(json.loads(line))
            except json.JSONDecodeError as error:
                if line.endswith("\n"):
                    raise SystemExit(f"{path}, line {number}: not JSON: {error}") from None
    return events


def first(events, name):
    return next((event for event in events if event["event"] == name), None)


def name_of(event):
    return f"learner {event['slot']}" if "slot" in event else event["role"]


def label_of(event):
    if event["event"] == "restart":
        return f"{name_of(event)} back after {event['recovery_ms']:.0f} ms"
    return f"{name_of(event)} " + {"kill": "killed", "death": "died"}[event["event"]]


def mark_events(axes, events):
    """Draws a line through all panels per event, its label on top: rows keep neighbours apart."""
    marked = [event for event in events if event["event"] in EVENT_COLOURS]
    left, right = axes[0].get_xlim()
    row_ends = []
    for event in marked:
        colour = EVENT_COLOURS[event["event"]]
        for axis in axes:
            style = "-" if event["event"] == "restart" else "--"
            axis.axvline(event["t_s"], color=colour, linewidth=1, linestyle=style, alpha=0.8)
        label = label_of(event)
        position = (event["t_s"] - left) / (right - left)
        width = 0.008 * len(label)  # share of the panel, at this font size
        to_left = position + width > 1
        start = position - width if to_left else position
        row = next((i for i, end in enumerate(row_ends) if end <= start), len(row_ends))
        row_ends[row:row + 1] = [start + width]
        axes[0].annotate(label, (position, 1), xycoords="axes fraction",
                         xytext=(-2 if to_left else 2, 4 + 12 * row), textcoords="offset points",
                         ha="right" if to_left else "left", fontsize=8, color=colour)
    return len(row_ends)


def column(progress, name):
    """JSON has no NaN: it is stored as null."""
    return [float("nan") if event[name] is None else event[name] for event in progress]


def draw_loss(axis, seconds, progress):
    axis.plot(seconds, column(progress, "train_loss"), color=TRAIN, label="training")
    axis.plot(seconds, column(progress, "val_loss"), color=VALIDATION, label="validation")
    axis.set_yscale("log")
    axis.set_ylabel("loss")
    axis.legend(loc="upper right", frameon=False)


def draw_accuracy(axis, seconds, progress, summary):
    accuracy = [100 * value for value in column(progress, "val_accuracy")]
    axis.plot(seconds, accuracy, color=VALIDATION, label="validation")
    if summary:
        test = 100 * summary["test_accuracy"]
        axis.plot(seconds[-1], test, "D", color=TEST, markersize=7, clip_on=False, zorder=5,
                  label=f"test, at the end: {test:.1f} %")
    settled = accuracy[len(accuracy) // 5:]
    axis.set_ylim(max(0, min(85, min(settled) - 2)), 100.5)
    axis.set_ylabel("accuracy, %")
    axis.legend(loc="lower right", frameon=False)


def draw_throughput(axis, seconds, progress):
    rates = column(progress, "samples_per_s")
    axis.plot(seconds, rates, color=THROUGHPUT, drawstyle="steps-pre")
    axis.fill_between(seconds, rates, step="pre", color=THROUGHPUT, alpha=0.15)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("samples per second")
    axis.set_xlabel("seconds")


def title_of(events):
    start = first(events, "start")
    options = start["options"]
    learners = options["learners"]
    return (f"{start['example']}: {start['train_samples']:,} {start['sample_word']}, {learners} "
            f"learner{'s' if learners != 1 else ''}, {options['synchrony']}, {options['rule']}, "
            f"mini-batch {options['mini_batch']}")


def draw(events, out):
    progress = [event for event in events if event["event"] == "progress"]
    if not progress:
        raise SystemExit("the run holds no progress: nothing to draw")
    seconds = [event["t_s"] for event in progress]

    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(3, 1, sharex=True, figsize=(9, 8), height_ratios=[3, 3, 2])
    draw_loss(axes[0], seconds, progress)
    draw_accuracy(axes[1], seconds, progress, first(events, "summary"))
    draw_throughput(axes[2], seconds, progress)
    axes[0].set_xlim(0, seconds[-1] * 1.01)
    rows = mark_events(axes, events)
    for axis in axes:
        axis.grid(axis="y", alpha=0.3)
    axes[0].set_title(title_of(events), pad=10 + 12 * rows, fontsize=12)
    figure.align_ylabels(axes)
    figure.tight_layout()
    figure.savefig(out, dpi=130)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="run.jsonl of a run")
    parser.add_argument("--out", default="run.png", help="the picture [%(default)s]")
    arguments = parser.parse_args()
    draw(read_events(arguments.run), arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
