#!/usr/bin/env python3
"""Draws the pictures of planner.md from what 'ffdl simulate --json' printed.

usage: plot_planner.py OUT_FOLDER LABEL=FILE...

Needs matplotlib. Allocation and jobs are drawn for each file, the distributions for all together.
"""

import json
import math
import pathlib
import re
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

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


def draw_timeline(label, report, path):
    """Workers in use over time, one colour for each program."""
    programs = sorted({job["job"].rsplit("-", 1)[0] for job in report["per_job"]})
    number = {program: i for i, program in enumerate(programs)}
    program_of = [number[job["job"].rsplit("-", 1)[0]] for job in report["per_job"]]
    workers = [0] * len(program_of)
    used = [0] * len(programs)
    hours, levels = [0.0], [list(used)]
    for second, job, count in report["timeline"]:
        used[program_of[job]] += count - workers[job]
        workers[job] = count
        if second / 3600 != hours[-1]:
            hours.append(second / 3600)
            levels.append(list(used))
        else:
            levels[-1] = list(used)
    figure, axes = plt.subplots(figsize=(9, 3.5))
    axes.stackplot(hours, list(zip(*levels)), labels=programs, step="post")
    axes.set(xlabel="hours", ylabel="workers", title=f"Allocation over time, {label}",
             xlim=(0, min(hours[-1], HOURS_MAX)))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=len(programs),
                fontsize="small")
    figure.savefig(path, dpi=70, bbox_inches="tight")
    plt.close(figure)


def draw_jobs(label, report, path):
    """One line for each job: grey while it waits, otherwise the darker the more workers it has."""
    end = {}  # of each job's last piece: since when, with how many workers
    figure, axes = plt.subplots(figsize=(9, 4.5))
    pieces = []
    for second, job, count in report["timeline"]:
        if job in end:
            pieces.append((job, end[job][0], second, end[job][1]))
        end[job] = (second, count)
    for job, one in enumerate(report["per_job"]):
        if one["completed_s"] is not None:
            axes.plot([one["submitted_s"] / 3600, one["completed_s"] / 3600], [job, job],
                      color="0.85", linewidth=1.5)
    shades = plt.get_cmap("viridis_r")
    for job, begin, stop, count in pieces:
        if count > 0:
            axes.plot([begin / 3600, stop / 3600], [job, job], linewidth=1.5,
                      color=shades(min(math.log2(count) / 6, 1.0)))
    axes.set(xlabel="hours", ylabel="job", title=f"The cluster's jobs, {label}",
             xlim=(0, min(report["makespan_s"] / 3600, HOURS_MAX)))
    scale = plt.cm.ScalarMappable(plt.Normalize(0, 6), shades)
    bar = figure.colorbar(scale, ax=axes, label="workers", ticks=range(7))
    bar.ax.set_yticklabels([str(2 ** i) for i in range(7)])
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
        draw_timeline(label, reports[label], out / f"planner-allocation-{name}.png")
        draw_jobs(label, reports[label], out / f"planner-jobs-{name}.png")
    draw_distributions(reports, out / "planner-completion.png")


if __name__ == "__main__":
    main()
