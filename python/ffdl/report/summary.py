"""Converts the events of a run to a summary for drawing. Only read_events() reads files."""

from __future__ import annotations

import json
import pathlib
import statistics
from dataclasses import dataclass, field
from typing import Any

from ..errors import Corrupt, NotFound

Event = dict[str, Any]

WINDOWS = 120  # of throughput, over a run of steps
STALLS = 8  # most stalls that are named
STALL_FACTOR = 5  # of the median time between steps

LOSSES = 600  # of steps: means of neighbours where there are more

HAPPENED = ("start", "kill", "death", "leave", "restart")


def read_events(run: pathlib.Path) -> list[Event]:
    """Returns the events in a file, or in all files *.jsonl of a folder, sorted by time.

    The last line of a file may be incomplete, because its writer may have been killed. Raises
    NotFound, Corrupt.
    """
    paths = sorted(run.glob("*.jsonl")) if run.is_dir() else [run]
    if not paths or not run.exists():
        raise NotFound(
            f"report run '{run}': there is no *.jsonl file; pass the folder or the file that the "
            "run wrote"
        )
    events = [event for path in paths for event in _read_file(path)]
    if not events:
        raise Corrupt(f"report run '{run}': its files are empty; was anything trained?")
    begin = min(event["t_s"] for event in events)
    for event in events:
        event["t_s"] -= begin
    return sorted(events, key=lambda event: event["t_s"])


def _read_file(path: pathlib.Path) -> list[Event]:
    events = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(keepends=True), 1):
        try:
            event = json.loads(line)
            if not isinstance(event, dict) or not isinstance(event.get("event"), str):
                raise ValueError("no object with an 'event'")
            event["t_s"] = float(event["t_s"])
        except (ValueError, KeyError, TypeError) as error:
            if not line.endswith("\n") or line.count('"event"') > 1:
                continue  # cut by a kill; the next life may have continued in the same line
            raise Corrupt(f"report run: '{path}', line {number}: {error}; write each line as JSON "
                          "with 'event' and 't_s'") from None
        events.append(event)
    return events


@dataclass
class Curve:
    """A curve of values of a run over the time in seconds."""

    name: str
    seconds: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, seconds: float, value: float | None) -> None:
        if value is not None:
            self.seconds.append(seconds)
            self.values.append(value)


@dataclass
class Stall:
    seconds: float  # when it began
    milliseconds: float
    reason: str  # the event at about that time, if there was one


@dataclass
class Summary:
    title: str
    losses: list[Curve]
    throughput: list[Curve]
    workers: list[Curve]
    pauses: list[Curve]  # between steps, in ms
    stalls: list[Stall]
    # [0]: from the newest weights. [b]: 2**(b-1) to 2**b - 1 other gradients were folded before.
    staleness: list[int]
    happened: list[Event]
    numbers: list[tuple[str, str]]


def summarise(events: list[Event], name: str) -> Summary:
    """Returns the summary of a run.

    name: the name of the run, used if no event names the run. Raises Corrupt if nothing was
    trained.
    """
    steps = [event for event in events if event["event"] == "step"]
    progress = [event for event in events if event["event"] == "progress"]
    if not steps and not progress:
        raise Corrupt("report run: no event is 'step' or 'progress'; pass a run that has trained")
    # The first line of an example describes the run and belongs to no worker.
    happened = [event for event in events
                if event["event"] in HAPPENED and not event.get("options")]
    runs = sorted({event.get("run", "") for event in steps})
    of_run = {run: _steps_of(steps, run) for run in runs}
    losses = [_loss_of(run, of_run[run]) for run in runs]
    throughput = [_throughput_of(run, of_run[run]) for run in runs]
    workers = [
        Curve(run, [one["t_s"] for one in of_run[run]], [one["workers"] for one in of_run[run]])
        for run in runs if any(one["workers"] for one in of_run[run])]
    if progress:
        losses += _curves(progress, {"train_loss": "training", "val_loss": "validation"})
        throughput += _curves(progress, {"samples_per_s": ""})
    pauses = [_pauses(run, of_run[run]) for run in runs]
    staleness = next((e["staleness"] for e in reversed(events) if "staleness" in e), [])
    stalls = _stalls(pauses, happened)
    summary = Summary(_title(events, name), losses, throughput, workers, pauses, stalls, staleness,
                      happened, [])
    summary.numbers = _numbers(summary, events)
    return summary


def _title(events: list[Event], name: str) -> str:
    start = next((event for event in events if event["event"] == "start"), {})
    options = start.get("options", {})
    words = [start.get("example", name)]
    words += [f"{options[key]} {word}" if word else str(options[key])
              for key, word in (("learners", "learners"), ("synchrony", ""), ("rule", ""))
              if key in options]
    return ", ".join(words)


def _steps_of(steps: list[Event], run: str) -> list[Event]:
    """Merges each step's events: first time, total samples, most workers, weighted losses."""
    by_number: dict[int, Event] = {}
    for event in steps:
        if event.get("run", "") != run:
            continue
        one = by_number.setdefault(event["step"], {
            "t_s": event["t_s"], "samples": 0, "sum": 0.0, "weight": 0, "workers": 0})
        samples = event.get("samples", 0)
        one["t_s"] = min(one["t_s"], event["t_s"])
        one["samples"] += samples
        one["workers"] = max(one["workers"], event.get("workers", 0))
        if event.get("loss") is not None:
            one["sum"] += event["loss"] * samples
            one["weight"] += samples
    return [by_number[number] for number in sorted(by_number)]


def _loss_of(run: str, steps: list[Event]) -> Curve:
    curve = Curve(run or "training")
    several = -(-len(steps) // LOSSES)
    for first in range(0, len(steps), several):
        some = [one for one in steps[first : first + several] if one["weight"] > 0]
        if some:
            curve.add(some[len(some) // 2]["t_s"],
                      sum(one["sum"] for one in some) / sum(one["weight"] for one in some))
    return curve


def _throughput_of(run: str, steps: list[Event]) -> Curve:
    curve = Curve(run)
    begin, end = steps[0]["t_s"], steps[-1]["t_s"]
    width = (end - begin) / min(WINDOWS, max(1, len(steps) // 4))
    if width <= 0:
        return curve
    sums: dict[int, int] = {}
    for one in steps:
        window = int((one["t_s"] - begin) / width)
        sums[window] = sums.get(window, 0) + one["samples"]
    for window in range(round((end - begin) / width)):
        curve.add(begin + (window + 0.5) * width, sums.get(window, 0) / width)
    return curve


def _curves(progress: list[Event], names: dict[str, str]) -> list[Curve]:
    curves = []
    for key, name in names.items():
        curve = Curve(name)
        for event in progress:
            curve.add(event["t_s"], event.get(key))
        if curve.values:
            curves.append(curve)
    return curves


def _pauses(run: str, steps: list[Event]) -> Curve:
    curve = Curve(run)
    for before, after in zip(steps, steps[1:], strict=False):
        curve.add(before["t_s"], 1e3 * max(0.0, after["t_s"] - before["t_s"]))
    return curve


def _stalls(pauses: list[Curve], happened: list[Event]) -> list[Stall]:
    """Returns the longest stalls: pauses far above the median pause, and recoveries from deaths."""
    stalls = []
    for curve in pauses:
        usual = statistics.median(curve.values) if curve.values else 0.0
        here = [event for event in happened if event.get("run", curve.name) == curve.name]
        stalls += [
            Stall(t, pause, _reason(t, pause, here))
            for t, pause in zip(curve.seconds, curve.values, strict=True)
            if pause > STALL_FACTOR * usual
        ]
    stalls += [
        Stall(event["t_s"] - event["recovery_ms"] / 1e3, event["recovery_ms"],
              f"{name_of(event)} was away")
        for event in happened if event.get("recovery_ms")
    ]
    return sorted(stalls, key=lambda stall: -stall.milliseconds)[:STALLS]


def _reason(t: float, pause: float, happened: list[Event]) -> str:
    about = [event for event in happened
             if t - 0.1 <= event["t_s"] <= t + pause / 1e3 + 1e-9]
    return "; ".join(f"{name_of(event)}: {event['event']}" for event in about[:3])


def name_of(event: Event) -> str:
    if "role" in event:
        return f"{event['role']} {event['slot']}" if "slot" in event else str(event["role"])
    worker = event.get("worker", "run")
    return f"worker {worker}" if isinstance(worker, int) else str(worker)


def _numbers(summary: Summary, events: list[Event]) -> list[tuple[str, str]]:
    rows = [("seconds", f"{events[-1]['t_s']:.1f}")]
    for curve in summary.throughput:
        if curve.values:
            rows.append((f"samples per second {curve.name}".strip(),
                         f"{statistics.fmean(curve.values):,.0f}"))
    for curve in summary.losses:
        if curve.values:
            last = curve.values[-max(1, len(curve.values) // 20):]
            rows.append((f"last loss, {curve.name}", f"{statistics.fmean(last):.4g}"))
    for curve in summary.pauses:
        if curve.values:
            rows.append((f"usual time of a step {curve.name}".strip(),
                         f"{statistics.median(curve.values):.2f} ms"))
            rows.append((f"longest pause {curve.name}".strip(), f"{max(curve.values):.1f} ms"))
    if sum(summary.staleness) > 0:
        rows.append(("gradients from the newest weights",
                     f"{summary.staleness[0] / sum(summary.staleness):.0%}"))
    ends = [event for event in events if event["event"] in ("end", "summary")]
    for event in ends[-2:]:
        if event.get("test_accuracy") is not None:
            rows.append((f"test accuracy {event.get('run', '')}".strip(),
                         f"{event['test_accuracy']:.1%}"))
    return rows
