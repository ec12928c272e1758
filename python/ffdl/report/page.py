"""Converts the summary of a run to a picture, and to a web page that needs no other file."""

from __future__ import annotations

import base64
import html
import io
from typing import Any

from .summary import Curve, Summary, name_of

_COLOURS = ("#4c72b0", "#dd8452", "#999999", "#55a868")
_MARKS = {"kill": "#b03030", "death": "#b03030", "leave": "#b07030", "restart": "#308040",
          "start": "#308040"}
_MARKED_FROM_S = 0.05  # events at the beginning are not marked
_WIDTH_POINTS = 580.0  # width of a panel, about
_LABEL_POINTS = 9.0  # from one label to the next


def draw(summary: Summary) -> bytes:
    """Returns a picture (PNG) of the summary of a run."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels: list[tuple[str, Any, int]] = [
        ("loss", _draw_loss, 3), ("samples/s", _draw_throughput, 2)]
    if any(curve.values for curve in summary.pauses):
        panels.append(("ms between steps", _draw_pauses, 2))
    if summary.workers:
        panels.append(("workers", _draw_workers, 1))
    over_time = len(panels)
    if sum(summary.staleness) > 0:
        panels.append(("gradients, %", _draw_staleness, 2))
    with plt.rc_context({"axes.spines.top": False, "axes.spines.right": False, "font.size": 9}):
        figure, axes = plt.subplots(
            len(panels), 1, figsize=(9, 1.2 + 1.1 * sum(size for *_, size in panels)),
            height_ratios=[size for *_, size in panels], constrained_layout=True)
        for axis, (label, draw_panel, _) in zip(axes, panels, strict=True):
            draw_panel(axis, summary)
            axis.set_ylabel(label)
            axis.grid(axis="y", alpha=0.3)
        timed = axes[:over_time]
        for axis in timed[1:]:
            axis.sharex(timed[0])
        for axis in timed[:-1]:
            axis.tick_params(labelbottom=False)
        timed[-1].set_xlabel("seconds")
        _mark(timed, summary)
        figure.suptitle(summary.title, fontsize=11)
        figure.align_ylabels(axes)
        out = io.BytesIO()
        figure.savefig(out, dpi=110)
        plt.close(figure)
    return out.getvalue()


def page(summary: Summary, picture: bytes) -> str:
    """Returns an HTML page with the picture of a run and the tables of its summary."""
    escape = html.escape
    image = base64.b64encode(picture).decode()
    stalls = [(f"{stall.seconds:.2f} s", f"{stall.milliseconds:.1f} ms", stall.reason)
              for stall in summary.stalls]
    happened = [(f"{event['t_s']:.2f} s", name_of(event), event["event"])
                for event in summary.happened]

    def table(heading: str, rows: list[Any]) -> str:
        if not rows:
            return ""
        lines = "\n".join(
            "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>"
            for row in rows)
        return f"<h2>{escape(heading)}</h2>\n<table>\n{lines}\n</table>\n"

    tables = (table("Numbers", summary.numbers) + table("Longest stalls", stalls)
              + table("What happened", happened))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(summary.title)}</title>
<style>
body {{ font: 15px/1.5 sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em }}
img {{ max-width: 100% }}
td {{ padding: 0.1em 1.5em 0.1em 0 }}
</style></head><body>
<h1>{escape(summary.title)}</h1>
<img alt="loss, throughput and stalls over time" src="data:image/png;base64,{image}">
{tables}
</body></html>
"""


def _plot(axis: Any, curves: list[Curve], **style: Any) -> None:
    for curve, colour in zip(curves, _COLOURS * len(curves), strict=False):
        axis.plot(curve.seconds, curve.values, color=colour, linewidth=1, label=curve.name, **style)
    if sum(1 for curve in curves if curve.name) > 1:
        axis.legend(frameon=False, loc="upper right")


def _draw_loss(axis: Any, summary: Summary) -> None:
    _plot(axis, summary.losses)
    if any(value > 0 for curve in summary.losses for value in curve.values):
        axis.set_yscale("log")


def _draw_throughput(axis: Any, summary: Summary) -> None:
    _plot(axis, summary.throughput)
    axis.set_ylim(bottom=0)


def _draw_pauses(axis: Any, summary: Summary) -> None:
    for curve, colour in zip(summary.pauses, _COLOURS * len(summary.pauses), strict=False):
        axis.plot(curve.seconds, curve.values, ".", markersize=2, color=colour)
    axis.set_yscale("log")
    from matplotlib.ticker import LogFormatter

    axis.yaxis.set_major_formatter(LogFormatter())
    axis.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))


def _draw_workers(axis: Any, summary: Summary) -> None:
    _plot(axis, summary.workers, drawstyle="steps-post")
    axis.set_ylim(0, 0.5 + max(value for curve in summary.workers for value in curve.values))
    axis.yaxis.get_major_locator().set_params(integer=True)


def _draw_staleness(axis: Any, summary: Summary) -> None:
    last = max(b for b, count in enumerate(summary.staleness) if count)
    counts = summary.staleness[: last + 1]
    names = ["0", "1"] + [f"{2 ** (b - 1)} to {2**b - 1}" for b in range(2, last + 1)]
    axis.bar(names[: last + 1], [100 * count / sum(counts) for count in counts],
             color=_COLOURS[0], width=0.6)
    axis.set_xlabel("staleness: gradients of others between pull and fold")


def label_shifts(places: list[float], width: float) -> list[float]:
    """Returns how far each label of a panel must move to the right to avoid overlaps.

    places: the labels' positions from left to right, in points.
    width: the width of the panel, in points. A label that would leave the panel keeps its place.
    """
    shifts = []
    free_from = 0.0
    for place in places:
        at = max(place, free_from)
        if at > width - _LABEL_POINTS:
            at = place
        shifts.append(at - place)
        free_from = at + _LABEL_POINTS
    return shifts


def _mark(axes: Any, summary: Summary) -> None:
    events = [event for event in summary.happened if event["t_s"] >= _MARKED_FROM_S]
    begin, end = axes[0].get_xlim()
    places = [_WIDTH_POINTS * (event["t_s"] - begin) / (end - begin) for event in events]
    for event, shift in zip(events, label_shifts(places, _WIDTH_POINTS), strict=True):
        for axis in axes:
            axis.axvline(event["t_s"], color=_MARKS[event["event"]], linestyle="--", linewidth=0.8)
        axes[0].annotate(
            f"{name_of(event)}: {event['event']}", (event["t_s"], 1),
            xycoords=("data", "axes fraction"), xytext=(2 + shift, -3), textcoords="offset points",
            rotation=90, va="top", fontsize=7, color=_MARKS[event["event"]])
