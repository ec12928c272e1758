"""Draws the results of ``ffdl simulate --timeline FILE``."""

from __future__ import annotations

import json
import math
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

_HOUR = 3600
_PROGRAMS_MAX = 12  # that have a colour each


def draw_allocation(axes: Any, report: dict[str, Any], hours_max: float = math.inf) -> None:
    """Draws the number of workers in use over time, with one colour for each program."""
    program_of = [job["application"] for job in report["per_job"]]
    programs = sorted(set(program_of))
    if len(programs) > _PROGRAMS_MAX:
        program_of, programs = ["all jobs"] * len(program_of), ["all jobs"]
    used = dict.fromkeys(programs, 0)
    workers = [0] * len(program_of)
    hours, levels = [0.0], [[0] * len(programs)]
    for second, job, count in report["timeline"]:
        used[program_of[job]] += count - workers[job]
        workers[job] = count
        if second / _HOUR != hours[-1]:
            hours.append(second / _HOUR)
            levels.append([])
        levels[-1] = list(used.values())
    axes.set(xlabel="hours", ylabel="workers", xlim=(0, min(hours[-1], hours_max) or 1))
    if not programs:
        return
    axes.stackplot(hours, list(zip(*levels, strict=True)), labels=programs, step="post")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=6, fontsize="small", frameon=False)


def draw_jobs(axes: Any, report: dict[str, Any], hours_max: float = math.inf) -> None:
    """Draws a line for each job over time: grey while the job waits, darker with more workers."""
    from matplotlib import collections, colormaps

    most = max((count for *_, count in report["timeline"]), default=1)
    shades = colormaps["viridis_r"]
    width = max(0.4, min(3.0, 200 / max(len(report["per_job"]), 1)))
    pieces, colours = [], []
    for job, one in enumerate(report["per_job"]):
        if one["completed_s"] is not None:
            pieces.append([(one["submitted_s"] / _HOUR, job), (one["completed_s"] / _HOUR, job)])
            colours.append("0.85")
    since: dict[int, tuple[float, int]] = {}  # start of each job's last piece, and its workers
    for second, job, count in report["timeline"]:
        begin, had = since.get(job, (second, 0))
        if had > 0:
            pieces.append([(begin / _HOUR, job), (second / _HOUR, job)])
            colours.append(shades(math.log2(had) / max(math.log2(most), 1)))
        since[job] = second, count
    axes.add_collection(collections.LineCollection(pieces, colors=colours, linewidths=width))
    end = min(report["makespan_s"] / _HOUR, hours_max) or 1
    axes.set(xlabel="hours", ylabel="job", xlim=(0, end), ylim=(-1, len(report["per_job"])))
    from matplotlib import cm, colors

    scale = cm.ScalarMappable(colors.LogNorm(1, max(most, 2)), shades)
    bar = axes.figure.colorbar(scale, ax=axes, label="workers")
    ticks = [2 ** i for i in range(max(most, 2).bit_length())]
    bar.set_ticks(ticks, labels=[str(tick) for tick in ticks])
    bar.minorticks_off()


def draw(report: dict[str, Any], path: pathlib.Path) -> None:
    """Draws a picture with the workers in use over time, and below it a line for each job."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"axes.spines.top": False, "axes.spines.right": False, "font.size": 9}):
        figure, (above, below) = plt.subplots(2, 1, figsize=(9, 8), height_ratios=[2, 3],
                                              sharex=True, constrained_layout=True)
        draw_allocation(above, report)
        draw_jobs(below, report)
        above.set_xlabel("")
        figure.suptitle(
            f"{report['completed']} of {report['jobs']} jobs done, on average in "
            f"{report['mean_jct_s']:.0f} s; {100 * report['utilisation']:.0f} % of the workers "
            "used")
        figure.savefig(path, dpi=110)
        plt.close(figure)


def picture_of(arguments: list[str]) -> str:
    """Returns the FILE of ``--timeline`` if FILE is to be a picture, else an empty string."""
    for place, word in enumerate(arguments):
        name, _, value = word.partition("=")
        if name == "--timeline":
            path = value or "".join(arguments[place + 1:place + 2])
            return "" if path.endswith(".json") else path
    return ""


def in_place_of(picture: str, data: str, arguments: list[str]) -> list[str]:
    """Returns the command's arguments, with the file `data` in place of the file `picture`."""
    words = list(arguments)
    for place, word in enumerate(words):
        if word == f"--timeline={picture}":
            words[place] = f"--timeline={data}"
        elif word == picture and words[place - 1] == "--timeline":
            words[place] = data
    return words


def main(program: pathlib.Path, arguments: list[str]) -> int:
    """Lets ``ffdl simulate`` write a JSON file, and draws the picture from this file.

    Returns the exit code of ``ffdl simulate``, or 1 if the picture cannot be drawn.
    """
    picture = pathlib.Path(picture_of(arguments))
    try:
        import matplotlib  # noqa: F401  before a simulation that may take a while
    except ModuleNotFoundError:
        print(f"ffdl: draw '{picture}': matplotlib is not installed; pip install matplotlib",
              file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "timeline.json"
        done = subprocess.run([program, *in_place_of(str(picture), str(data), arguments)],
                              check=False)
        if done.returncode != 0:
            return done.returncode
        report = json.loads(data.read_text(encoding="utf-8"))
    try:
        draw(report, picture)
    except (OSError, ValueError) as error:  # no such folder, or an unknown format
        print(f"ffdl: draw '{picture}': {error}; name another file", file=sys.stderr)
        return 1
    return 0
