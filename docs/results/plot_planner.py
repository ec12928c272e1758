#!/usr/bin/env python3
"""Draws the pictures of planner.md from what 'ffdl simulate --json' printed.

usage: plot_planner.py OUT_FOLDER LABEL=FILE...

Needs matplotlib and the Python package ffdl, whose `ffdl simulate --timeline` draws the same.
Allocation and jobs are drawn for each file, the distributions for all together.
"""

import json
import pathlib
import re
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from ffdl.report import cluster  # noqa: E402

HOURS_MAX = 10  # drawn of a run: what comes after are the last few jobs


def completion_hours(report):
    return sorted((job["completed_s"] - job["submitted_s"]) / 3600 for job in report["per_job"]
                  if job["completed_s"] is not None)


def draw_distributions(reports, path):
    figure, axes = plt.subplots(figsize=(7, 4))
    for label, report in reports.items():
        hours = completion_hours(report)
        axes.step(hours, [(i + 1) / len(hours) for i in range(len(hours))], where="post",
                  label=f"{label}: mean {report['mean_jct_s']:.0f} s")
    axes.set(xscale="log", xlabel="completion time, hours", ylabel="share of jobs",
             title="Completion times")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=70, bbox_inches="tight")
    plt.close(figure)


def draw_alone(draw, report, title, path):
    figure, axes = plt.subplots(figsize=(9, 4))
    draw(axes, report, HOURS_MAX)
    axes.set_title(title, pad=22)  # above a legend
    figure.savefig(path, dpi=70, bbox_inches="tight")
    plt.close(figure)


def main():
    if len(sys.argv) < 3 or not all("=" in word for word in sys.argv[2:]):
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    reports = {}
    for word in sys.argv[2:]:
        label, file = word.split("=", 1)
        reports[label] = json.loads(pathlib.Path(file).read_text())
        name = re.sub("[^a-z0-9]+", "-", label.lower())
        draw_alone(cluster.draw_allocation, reports[label], f"Allocation over time, {label}",
                   out / f"planner-allocation-{name}.png")
        draw_alone(cluster.draw_jobs, reports[label], f"The cluster's jobs, {label}",
                   out / f"planner-jobs-{name}.png")
    draw_distributions(reports, out / "planner-completion.png")


if __name__ == "__main__":
    main()
