#!/usr/bin/env python3
"""Measures how soon a slow worker is found and replaced, and the benefit.

    ./dev run stragglers [--by hog|stop]
    benchmarks/training/stragglers.py --ffdl FFDL --worker WORKER --digits digits.csv.gz

A job of two workers, with a third one idle. It trains for --steps steps. Then worker-1 becomes
three times as slow: by two busy processes on its core (hog) or, with fewer than three cores, by
stops in each of its steps until that has taken three times as long as the other's (stop). All
workers have a watch that replaces. Prints steps per second before, from the first slow step until
the other worker is there, and in --steps steps after it. Exit status: 1 unless worker-1 is found
within 15 steps and replaced in one change of the world, and no worker is found slow after that; 77
(skipped) without digits, or if the machine is too busy for a result.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from elastic_job import SKIPPED, ElasticJob, Programs, end_in_order, make_parser

STEPS_MAX = 15  # until it is found
TIMES = 3
EPOCHS = 1000  # the job is ended before that
# A worker with a core of its own computes all the time. With few cores, workers wait for the rest
# of their steps, so that none is slow by chance.
WORK = {"hog": {"mini-batch": 512}, "stop": {"mini-batch": 32, "micro-batch-max": 8, "hold-ms": 50}}
SLOW, OTHER, IDLE = "worker-1", "worker-0", "worker-2"


class Disturbed(Exception):
    """The machine is busy with other work."""


class Slowed:
    """Slows a worker by signals, independent of other load.

    Holds up each of its steps until it takes a multiple of the other's time.
    """

    def __init__(self):
        self._pid = None
        self._began = {}  # t_s of the last step that each worker has ended
        self._computed = None  # the step that the other has computed, and its duration
        self._held = None  # the step in which the slow one is held up

    def begin(self, pid):
        self._pid = pid

    def follow(self, new):
        for event in new:
            worker, what = event["worker"], event["event"]
            if (worker, what) == (SLOW, "left"):
                self._pid = None
            elif what == "step":
                self._began[worker] = event["t_s"]
                if worker == SLOW and self._pid is not None:
                    self._signal(signal.SIGSTOP)
                    self._held = event["step"] + 1
            elif (worker, what) == (OTHER, "computed") and OTHER in self._began:
                self._computed = (event["step"], event["t_s"] - self._began[OTHER])
        if self._held is not None and self._computed[0] >= self._held:
            if time.time() >= self._began[SLOW] + TIMES * self._computed[1]:
                self._signal(signal.SIGCONT)
                self._held = None

    def end(self):
        self._signal(signal.SIGCONT)

    def _signal(self, number):
        if self._pid is None:
            return
        try:
            os.kill(self._pid, number)
        except ProcessLookupError:
            self._pid = None  # it has been replaced


class Hogged:
    """Slows a worker by processes that share its core.

    Each worker has a core of its own; of two cores the idle one gets that of the worker that is not
    slow.
    """

    def __init__(self):
        self._cores = sorted(os.sched_getaffinity(0))[:3]
        self._hogs = []

    def begin(self, _):
        for _ in range(TIMES - 1):
            self._hogs.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            os.sched_setaffinity(self._hogs[-1].pid, {self._core_of(SLOW)})

    def follow(self, new):
        for event in new:
            if event["event"] == "begin":
                os.sched_setaffinity(event["pid"], {self._core_of(event["worker"])})

    def end(self):
        for hog in self._hogs:
            hog.kill()
            hog.wait()

    def _core_of(self, worker):
        return self._cores[int(worker.removeprefix("worker-")) % len(self._cores)]


class Observer:
    """The workers' output so far."""

    def __init__(self, job, slow):
        self._job = job
        self._slow = slow
        self.steps = {}  # t_s at which OTHER ended it
        self.worlds = {}  # the generation of a step, and the size of its world
        self.stragglers = []
        self.pids = {}

    def wait_for(self, condition):
        def look(new):
            self._slow.follow(new)
            self._follow(new)
            return condition()
        self._job.wait_for(look)

    def wait_for_steps(self, count):
        """Waits for that many more steps."""
        last = self.last + count
        self.wait_for(lambda: self.last >= last)

    @property
    def last(self):
        return max(self.steps, default=0)

    def steps_per_s(self, begin, end):
        return (end - begin) / (self.steps[end] - self.steps[begin])

    def _follow(self, new):
        for event in new:
            if event["event"] == "step":
                self.pids[event["worker"]] = event["pid"]
                self.worlds[event["step"]] = (event["generation"], event["workers"])
                if event["worker"] == OTHER:
                    self.steps[event["step"]] = event["t_s"]
            elif event["event"] == "straggler":
                self.stragglers.append((event["step"], event["id"]))
            elif event["event"] == "left":
                self.pids.pop(event["worker"], None)


def observe(arguments, folder):
    """Returns the figures and their errors."""
    slow = Hogged() if arguments.by == "hog" else Slowed()
    options = {"epochs": EPOCHS, "replace-stragglers": arguments.factor, **WORK[arguments.by]}
    name = f"stragglers-{os.getpid()}"
    programs = Programs(arguments.ffdl, arguments.worker)
    with ElasticJob(programs, name, folder / name, "digits", arguments.digits, 3, options) as job:
        seen = Observer(job, slow)
        job.hold(True)
        try:
            seen.wait_for(lambda: len(seen.pids) == 3)
            job.scale(2)
            seen.wait_for(lambda: set(seen.pids) == {OTHER, SLOW})
            seen.wait_for_steps(arguments.steps)
            if SLOW not in seen.pids:
                raise Disturbed(f"{SLOW} was found slow before it was slowed down, and replaced")
            onset, flagged = seen.last + 1, len(seen.stragglers)
            begun = onset - 1 - arguments.steps
            slow.begin(seen.pids[SLOW])
            seen.wait_for(lambda: len(seen.stragglers) > flagged)
            found = seen.stragglers[flagged]
            seen.wait_for(lambda: set(seen.pids) == {OTHER, IDLE})
            replaced = seen.last
            seen.wait_for_steps(arguments.steps)
        finally:
            slow.end()
    changes = sorted({world for step, world in seen.worlds.items() if step > onset})
    return {
        "before": seen.steps_per_s(begun, onset - 1),
        "during": seen.steps_per_s(onset, replaced),
        "after": seen.steps_per_s(replaced + 1, seen.last),
        "found_after": found[0] - onset + 1,
        "replaced_after": replaced - onset + 1,
        "found": found[1],
        "changes": changes,
        "found_later": sorted({who for step, who in seen.stragglers[flagged:] if who != SLOW}),
    }


def wrong_with(figures):
    if figures["found"] != SLOW or figures["found_after"] > STEPS_MAX:
        yield f"{figures['found']} was found after {figures['found_after']} slow steps"
    if [size for _, size in figures["changes"]] != [2, 2]:
        yield f"worlds, and how many were in them: {figures['changes']}"
    if figures["found_later"]:
        yield f"found later: {figures['found_later']}"


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--by", choices=["hog", "stop"],
                        default="hog" if len(os.sched_getaffinity(0)) >= 3 else "stop")
    parser.add_argument("--steps", type=int, default=200, help="before and after [%(default)s]")
    parser.add_argument("--factor", type=float, default=1.2,
                        help="over the median, of a straggler [%(default)s]")
    arguments = parser.parse_args()
    end_in_order()
    if arguments.digits is None or not arguments.digits.is_file():
        print("skipped: there is no digits.csv.gz, which comes with scikit-learn; --digits names it")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="ffdl-stragglers-") as folder:
        try:
            figures = observe(arguments, pathlib.Path(folder))
        except Disturbed as disturbed:
            print(f"skipped: {disturbed}: the machine is not quiet; try again, or a larger "
                  "--factor", file=sys.stderr)
            return SKIPPED
    print("| slowed by | steps/s before | slow | after | found in slow step | replaced in |")
    print("|---|---|---|---|---|---|")
    print(f"| {arguments.by} | {figures['before']:.1f} | {figures['during']:.1f} | "
          f"{figures['after']:.1f} | {figures['found_after']} | {figures['replaced_after']} |")
    wrong = list(wrong_with(figures))
    for one in wrong:
        print(one, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
