#!/usr/bin/env python3
"""What becomes of a model whose workers change their number and are killed while it trains.

    ./dev run accuracy [--seeds 5] [--output docs/results/accuracy.md]
    benchmarks/training/accuracy.py BUILD --digits digits.csv.gz --nlc data_full.json

Handwritten digits and customer queries, their mini-batches the same whatever the number of workers.
For each seed one worker trains undisturbed, and then a job that changes its size ten times, to a
size that is drawn, and two of whose workers are killed, each at a step that is drawn. Both once
more with virtual workers, where the final weights must be the same to the last bit. Exit status: 1
where they are not, where fewer changes or kills happened than were planned, where a sample was
missing or repeated, or where the mean accuracy over the seeds differs by more than 0.3 points.
"""

import argparse
import dataclasses
import datetime
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

import elastic_job
from elastic_job import WORKERS_MAX, ElasticJob, TrainingOver

POINTS_MAX = 0.3
TASKS = {
    "digits": {"epochs": 40, "mini-batch": 32, "learning-rate": 0.02},
    "nlc": {"epochs": 4, "mini-batch": 64, "learning-rate": 0.006},
}
VIRTUAL_WORKERS = 4
STEP_MS = 8  # of a changed training: so that all fits in before it ends
SKIPPED = 77


@dataclasses.dataclass(frozen=True)
class Disturbance:
    share: float  # of all steps, after which it happens
    size: int  # to which the job changes; 0: a worker is killed


def draw_disturbances(generator, changes, kills):
    """In their order. Changes are to another size; kills come where there are two workers."""
    deeds = ["change"] * changes + ["kill"] * kills
    generator.shuffle(deeds)
    plan = []
    size = WORKERS_MAX
    for number, deed in enumerate(deeds):
        share = 0.05 + 0.75 * (number + generator.random()) / len(deeds)
        may_be = [n for n in range(1, WORKERS_MAX + 1) if n != size]
        if deed == "change":
            if deeds[number + 1:number + 2] == ["kill"]:
                may_be.remove(1) if 1 in may_be else None
            size = generator.choice(may_be)
        plan.append(Disturbance(share, size if deed == "change" else 0))
    return plan


@dataclasses.dataclass
class Outcome:
    accuracy: float  # in percent
    weights: str
    steps: int
    changes: int = 0
    kills: int = 0
    worlds: int = 1


class Trainer:
    """Trains with one set of options."""

    def __init__(self, arguments, folder, task, data):
        self._programs = elastic_job.Programs(arguments.build)
        self._folder = folder
        self._task = task
        self._data = data
        self._options = dict(TASKS[task])
        if arguments.epochs:
            self._options["epochs"] = arguments.epochs

    def train(self, name, seed, virtual, plan):
        options = {**self._options, "seed": seed}
        if virtual:
            options["virtual-workers"] = VIRTUAL_WORKERS
        if plan:
            options["step-ms"] = STEP_MS
        name = f"accuracy-{os.getpid()}-{self._task}-{seed}-{name}"
        with ElasticJob(self._programs, name, self._folder / name, self._task, self._data,
                        WORKERS_MAX if plan else 1, options) as job:
            done = Disturber(job).carry_out(plan)
            ends = job.wait()
            hashes = job.weights()
            if len(hashes) != 1 or len({end["test_accuracy"] for end in ends}) != 1:
                raise RuntimeError(f"job {name}: its workers end with different weights")
            job.audit()
            generations = {e["generation"] for e in job.events if e["event"] == "step"}
            return Outcome(100 * ends[0]["test_accuracy"], hashes.pop(), ends[0]["step"], *done,
                           len(generations))


class Disturber:
    """Has a plan happen to a job, one disturbance after the other has been seen to happen."""

    def __init__(self, job):
        self._job = job
        self._steps = None  # of the whole training
        self._size = WORKERS_MAX
        self._step = 0
        self._pids = {}  # of those who train, by worker

    def carry_out(self, plan):
        """Returns how many changes and kills the workers have seen."""
        changes = kills = 0
        try:
            for one in plan:
                self._wait_for_share(one.share)
                if one.size > 0:
                    self._change(one.size)
                    changes += 1
                else:
                    self._kill()
                    kills += 1
        except TrainingOver:
            pass  # the caller sees that there were fewer
        return changes, kills

    def _follow(self, new):
        for event in new:
            if event["event"] == "begin":
                self._steps = event["steps"]
            elif event["event"] == "step":
                self._step = max(self._step, event["step"])
                self._pids[event["worker"]] = event["pid"]
            elif event["event"] == "left":
                self._pids.pop(event["worker"], None)

    def _wait_for_share(self, share):
        """Of the steps; and until all who are wanted train."""
        def is_there(new):
            self._follow(new)
            all_train = len(self._pids) == self._size
            return True if all_train and self._step >= share * self._steps else None
        self._job.wait_for(is_there)

    def _wait_for_world(self, size, after):
        """Until so many have trained together in a step after that one."""
        def is_there(new):
            self._follow(new)
            return True if any(event["event"] == "step" and event["workers"] == size
                               and event["step"] > after for event in new) else None
        self._job.wait_for(is_there)

    def _change(self, size):
        self._job.scale(size)
        self._size = size
        self._wait_for_world(size, self._step)

    def _kill(self):
        worker = random.Random(self._step).choice(sorted(self._pids))
        dead = self._pids.pop(worker)
        elastic_job.kill(dead)
        self._job.wait_for(lambda new: self._has_trained_again(new, worker, dead))

    def _has_trained_again(self, new, worker, dead):
        """A new life of the killed one has ended a step."""
        self._follow([event for event in new if event["pid"] != dead])
        return True if self._pids.get(worker, dead) != dead else None


def paragraph(arguments):
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True,
                            text=True, check=False, cwd=pathlib.Path(__file__).parent).stdout.strip()
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8")
                  if line.startswith("model name")), "unknown processor")
    return (f"{model}, {os.cpu_count()} cores, {datetime.date.today()}, commit {commit}.\n"
            f"Command: `./dev run accuracy --seeds {arguments.seeds}`.")


class Table:
    """Prints rows as they come, and keeps them."""

    def __init__(self):
        self.lines = []

    def add(self, *cells):
        self.lines.append("| " + " | ".join(map(str, cells)) + " |")
        print(self.lines[-1], flush=True)


def train_seed(trainer, seed, arguments):
    """The row of one seed: its cells, the difference in points, and what is wrong with it."""
    plan = draw_disturbances(random.Random(seed), arguments.changes, arguments.kills)
    alone = trainer.train("alone", seed, False, [])
    changed = trainer.train("changed", seed, False, plan)
    virtual_alone = trainer.train("virtual", seed, True, [])
    virtual = trainer.train("virtual-changed", seed, True, plan)
    wrong = []
    for outcome in (changed, virtual):
        if (outcome.changes, outcome.kills) != (arguments.changes, arguments.kills):
            wrong.append(f"seed {seed}: {outcome.changes} changes and {outcome.kills} kills before "
                         "the training was over; use more --epochs")
    is_same = virtual.weights == virtual_alone.weights
    if not is_same:
        wrong.append(f"seed {seed}: the weights with virtual workers are not the same")
    difference = changed.accuracy - alone.accuracy
    cells = (seed, f"{alone.accuracy:.2f}", f"{changed.accuracy:.2f}", f"{difference:+.2f}",
             f"{changed.changes} + {changed.kills}", changed.worlds,
             f"{virtual_alone.accuracy:.2f}", f"{virtual.accuracy:.2f}",
             f"{virtual.changes} + {virtual.kills}", f"`{virtual_alone.weights[:16]}`",
             f"`{virtual.weights[:16]}`", "yes" if is_same else "NO")
    return cells, difference, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the folder of the build")
    parser.add_argument("--digits", type=pathlib.Path, help="digits.csv.gz")
    parser.add_argument("--nlc", type=pathlib.Path, help="data_full.json")
    parser.add_argument("--seeds", type=int, default=5, help="[%(default)s]")
    parser.add_argument("--changes", type=int, default=10, help="of the size [%(default)s]")
    parser.add_argument("--kills", type=int, default=2, help="[%(default)s]")
    parser.add_argument("--epochs", type=int, help="other than usual")
    parser.add_argument("--output", type=pathlib.Path, help="a page to write the table to")
    arguments = parser.parse_args()
    table = Table()
    wrong = []
    table.add("", "seed", "alone, %", "changed, %", "points", "changes + kills", "worlds",
              "virtual alone, %", "virtual changed, %", "changes + kills", "weights alone",
              "weights changed", "same bits")
    table.add(*["---"] * 13)
    with tempfile.TemporaryDirectory(prefix="ffdl-accuracy-") as folder:
        for task, data in (("digits", arguments.digits), ("nlc", arguments.nlc)):
            if data is None:
                continue
            trainer = Trainer(arguments, pathlib.Path(folder), task, data)
            rows = [train_seed(trainer, seed, arguments)
                    for seed in range(1, arguments.seeds + 1)]
            for cells, _, _ in rows:
                table.add(task, *cells)
            wrong += [f"{task}, {one}" for _, _, wrongs in rows for one in wrongs]
            mean = statistics.mean(difference for _, difference, _ in rows)
            table.add(task, "mean", "", "", f"{mean:+.2f}", *[""] * 8)
            if abs(mean) > POINTS_MAX:
                wrong.append(f"{task}: {mean:+.2f} points over the seeds")
    for one in wrong:
        print(one, file=sys.stderr)
    if arguments.output is not None:
        print(paragraph(arguments))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
