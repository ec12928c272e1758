#!/usr/bin/env python3
"""Draws a run of the elastic example as a small SVG: workers over time, and the training loss.

    report.py elastic-run/run.jsonl --out run.svg

The upper panel has the number of workers and the events of the run. The lower panel has the loss of
each step, and in grey the loss of one undisturbed worker. The program needs nothing but Python.
README's picture was made by

    ./dev run --elastic
    examples/elastic_digits/report.py build/run/elastic/run.jsonl \\
        --note "MACHINE, DATE, commit COMMIT" --out docs/results/elastic-run.svg
"""

import argparse
import json
import math
import pathlib
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT = 760, 60, 20
WORDS = {"start": "starts", "kill": "killed", "leave": "leaves"}
COLOURS = {"start": "#1a7f37", "kill": "#cf222e", "leave": "#9a6700"}
LINE, ALONE, TEXT = "#0969da", "#afb8c1", "#24292f"
POINTS = 240  # of a curve


def read(path):
    """Its lines; the last one of a killed worker may be cut short."""
    for line in path.read_text(encoding="utf-8").split("\n"):
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


def steps_of(events, run):
    """By step, in order: (end of its first worker in seconds, mean loss by samples, workers)."""
    steps = {}
    for event in events:
        if event["event"] == "step" and event["run"] == run:
            t_s, loss, samples, _ = steps.get(event["step"], (math.inf, 0.0, 0, 0))
            steps[event["step"]] = (
                min(t_s, event["t_s"]), loss + event["loss"] * event["samples"],
                samples + event["samples"], event["workers"])
    return [(t_s, loss / max(samples, 1), workers)
            for _, (t_s, loss, samples, workers) in sorted(steps.items())]


def thinned(values):
    """The mean of each of POINTS stretches, with the place of each in [0, 1]."""
    stretch = max(1, len(values) // POINTS)
    return [(begin / len(values), sum(part) / len(part))
            for begin in range(0, len(values), stretch)
            for part in [values[begin:begin + stretch]]]


def text(x, y, words, *, size=12, anchor="start", colour=TEXT):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="{colour}">{escape(words)}</text>')


def curve(points, colour, width):
    where = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{where}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def level(y):
    return (f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            'stroke="#d0d7de"/>')


def workers_panel(events, steps, top, height):
    end = steps[-1][0]
    inner = WIDTH - LEFT - RIGHT
    x_of = lambda t_s: LEFT + inner * t_s / end  # noqa: E731
    y_of = lambda workers: top + height - height * workers / 3.1  # noqa: E731
    parts = [text(LEFT - 40, y_of(count) + 4, f"{count}", size=11) for count in (1, 2)]
    parts += [level(y_of(count)) for count in (0, 1, 2)]
    points, last = [], None
    for t_s, _, workers in steps:
        if workers != last:
            before = workers if last is None else last
            points += [(x_of(t_s), y_of(before)), (x_of(t_s), y_of(workers))]
            last = workers
    points.append((x_of(end), y_of(last)))
    parts.append(curve(points, LINE, 2.5))
    shown = [event for event in events if event.get("run") == "elastic"
             and event["event"] in WORDS and event["t_s"] > 0.01]
    for number, event in enumerate(shown):  # in two rows, as they may be close together
        x, colour = x_of(event["t_s"]), COLOURS[event["event"]]
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{top + height}" '
                     f'stroke="{colour}" stroke-dasharray="4 3"/>')
        words = f"worker {event['worker']} {WORDS[event['event']]}"
        parts.append(text(x + 4, top + 10 + 13 * (number % 2), words, size=11, colour=colour))
    parts.append(text(LEFT, top - 8, "workers"))
    parts.append(text(WIDTH - RIGHT, top + height + 14, f"{end:.1f} s", size=11, anchor="end"))
    parts.append(text(LEFT, top + height + 14, "0", size=11))
    return parts


def loss_panel(elastic, alone, top, height):
    curves = {ALONE: thinned([loss for _, loss, _ in alone]),
              LINE: thinned([loss for _, loss, _ in elastic])}
    logs = [math.log10(max(loss, 1e-9)) for points in curves.values() for _, loss in points]
    low, high = min(logs), max(logs)
    y_of = lambda loss: (  # noqa: E731
        top + height * (high - math.log10(max(loss, 1e-9))) / ((high - low) or 1))
    parts = [level(top), level(top + height)]
    for colour, points in curves.items():
        parts.append(curve([(LEFT + (WIDTH - LEFT - RIGHT) * x, y_of(loss)) for x, loss in points],
                           colour, 5 if colour == ALONE else 1.5))
    parts += [text(LEFT - 8, top + 4, f"{10**high:.2g}", size=11, anchor="end"),
              text(LEFT - 8, top + height + 4, f"{10**low:.2g}", size=11, anchor="end"),
              text(LEFT, top - 8, "training loss (logarithmic): one worker all the time (grey), "
                                  "workers that change (blue)"),
              text(LEFT, top + height + 16, "step 0", size=11),
              text(WIDTH - RIGHT, top + height + 16, f"step {len(elastic)}", size=11, anchor="end")]
    return parts


def draw(events, note):
    elastic, alone = steps_of(events, "elastic"), steps_of(events, "alone")
    ends = {event["run"]: event["test_accuracy"] for event in events if event["event"] == "end"}
    parts = workers_panel(events, elastic, 48, 100) + loss_panel(elastic, alone, 204, 120)
    accuracies = ", ".join(f"{100 * ends[run]:.1f} % {words}" for run, words in (
        ("elastic", "with workers that change"), ("alone", "alone")) if run in ends)
    parts.append(text(LEFT, 22, f"Handwritten digits; test accuracy: {accuracies}", size=13))
    if note:
        parts.append(text(WIDTH - RIGHT, 360, note, size=10, anchor="end", colour="#57606a"))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 370" '
            'font-family="sans-serif">\n<rect width="100%" height="100%" fill="white"/>\n'
            + "\n".join(parts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=pathlib.Path, help="run.jsonl of elastic_digits")
    parser.add_argument("--note", default="", help="machine, date and commit, below the picture")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("run.svg"),
                        help="the picture (default: %(default)s)")
    arguments = parser.parse_args()
    arguments.out.write_text(draw(list(read(arguments.run)), arguments.note), encoding="utf-8")


if __name__ == "__main__":
    main()
