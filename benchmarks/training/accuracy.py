#!/usr/bin/env python3
"""Measures the accuracy of a model when workers join, leave and are killed during training.

    ./dev run accuracy [--seeds 5] [--output docs/results/accuracy.md]
    benchmarks/training/accuracy.py --ffdl FFDL --worker WORKER --digits digits.csv.gz

Handwritten digits and customer queries, with the same mini-batches for any number of workers. For
each seed one worker trains undisturbed. Then a job trains that changes its size ten times, to sizes
drawn at random, and loses two workers to kills, each at a step drawn at random. Both run again with
virtual workers, where the final weights must be the same to the last bit. Exit status: 1 if they
are not, if fewer changes or kills happened than were planned, if a sample was missing or repeated,
or if the mean accuracy over the seeds differs by more than 0.3 points.
"""

import dataclasses
import datetime
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

from elastic_job import SKIPPED, ElasticJob, Programs, TrainingOver, end_in_order, make_parser

POINTS_MAX = 0.3
WORKERS_MAX = 4
VIRTUAL_WORKERS = 4
# For a step during a change, so that all fit in before the training ends. A further attempt holds
# all steps until the last change.
HOLD_MS = [40, 120, 360]
TASKS = {
    "digits": {"epochs": 40, "mini-batch": 32, "learning-rate": 0.02},
    "nlc": {"epochs": 4, "mini-batch": 64, "learning-rate": 0.006},
}
PAGE = """\
# Accuracy of trainings with a changing number of workers

`benchmarks/training/accuracy.py` trains two models:

- the handwritten digits: the network of [examples/digits](../../examples/digits/README.md),
  momentum, {digits};
- the customer queries ([examples/nlc](../../examples/nlc/README.md)), with an eighth of its table,
  Adam, {nlc}.

*alone*: one worker from the first step to the last. *changed*: real processes under `ffdl run`,
{workers} at first. At random steps their number is changed to a random one from 1 to {workers}
(`ffdl scale`). Some are killed (`kill -9`) at random steps. A change or a kill counts once the
workers have trained in the resulting world.

The mini-batches are the same for any number of workers. The logs of all workers prove that each
sample was used once per epoch (`ffdl data audit`).

{machine} The figures do not depend on the speed of the machine.

```
$ {command}
```

{tables}

*worlds*: the number of worlds that trained at least one step.

With {virtual} virtual workers the state does not depend on the workers' changes: it has the
same bits ([sessions.md](../guide/sessions.md)). The hashes are the beginnings of SHA-256 over the
final weights, which are equal at all workers of a job.

Without virtual workers, another number of workers sums in another order. So the last bits of the
weights may differ, and a sample near the boundary may change its class.
{units}
"""


@dataclasses.dataclass(frozen=True)
class Disturbance:
    share: float  # of all steps, at which it happens
    size: int  # the new size of the job; 0: a worker is killed


def draw_disturbances(generator, changes, kills):
    """Draws them in order. A change is to another size; after a kill another worker remains."""
    deeds = ["change"] * changes + ["kill"] * kills
    generator.shuffle(deeds)
    plan = []
    size = WORKERS_MAX
    for number, deed in enumerate(deeds):
        share = 0.05 + 0.75 * (number + generator.random()) / len(deeds)
        if deed == "change":
            least = 2 if deeds[number + 1:number + 2] == ["kill"] else 1
            size = generator.choice([n for n in range(least, WORKERS_MAX + 1) if n != size])
        plan.append(Disturbance(share, size if deed == "change" else 0))
    return plan


@dataclasses.dataclass
class Outcome:
    accuracy: float  # in percent
    weights: str  # their hash
    changes: int  # number that happened
    kills: int
    worlds: int
    test_samples: int


class Disturber:
    """Applies a plan to a job, each disturbance after the previous one was observed."""

    def __init__(self, job, generator):
        self._job = job
        self._generator = generator
        self._size = WORKERS_MAX
        self._step = 0
        self._steps = None  # in the whole training
        self._pids = {}  # of the training workers, by worker

    def carry_out(self, plan, holds_between):
        """Returns the number of changes and kills that the workers have seen."""
        changes = kills = 0
        self._job.hold(holds_between)
        try:
            for one in plan:
                self._wait_for_share(one.share)
                self._job.hold(True)
                if one.size > 0:
                    self._change(one.size)
                    changes += 1
                else:
                    self._kill()
                    kills += 1
                self._job.hold(holds_between)
            self._job.hold(False)
        except TrainingOver:
            pass  # the caller checks their number
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

    def _wait_for(self, condition):
        def look(new):
            self._follow(new)
            return condition(new)
        self._job.wait_for(look)

    def _wait_for_share(self, share):
        """Waits for this share of the steps, and until all wanted workers train."""
        self._wait_for(lambda _: len(self._pids) == self._size
                       and self._step >= share * self._steps)

    def _change(self, size):
        before = self._step
        self._job.scale(size)
        self._size = size
        self._wait_for(lambda new: any(
            event["event"] == "step" and event["workers"] == size and event["step"] > before
            for event in new))

    def _kill(self):
        """Kills a worker and waits until its next life has ended a step."""
        worker = self._generator.choice(sorted(self._pids))
        dead = self._pids.pop(worker)
        self._job.kill(dead)
        self._wait_for(lambda new: any(
            event["event"] == "step" and event["worker"] == worker and event["pid"] != dead
            for event in new))
        self._pids = {one: pid for one, pid in self._pids.items() if pid != dead}


class Trainer:
    """Trains one task."""

    def __init__(self, arguments, folder, task, data):
        self._programs = Programs(arguments.ffdl, arguments.worker)
        self._folder = folder
        self._task = task
        self._data = data
        self._options = dict(TASKS[task])
        if arguments.epochs:
            self._options["epochs"] = arguments.epochs

    def train(self, name, seed, virtual, plan):
        """Trains again, with slower steps, if the training was over before the end of the plan."""
        for attempt, hold_ms in enumerate(HOLD_MS):
            outcome = self._train_once(f"{name}-{attempt}", seed, virtual, plan, hold_ms,
                                       attempt > 0)
            if outcome.changes + outcome.kills == len(plan):
                break
        return outcome

    def _train_once(self, name, seed, virtual, plan, hold_ms, holds_between):
        options = {**self._options, "seed": seed, "hold-ms": hold_ms}
        if virtual:
            options["virtual-workers"] = VIRTUAL_WORKERS
        name = f"accuracy-{os.getpid()}-{self._task}-{seed}-{name}"
        print(f"{name} ...", file=sys.stderr, flush=True)
        with ElasticJob(self._programs, name, self._folder / name, self._task, self._data,
                        WORKERS_MAX if plan else 1, options) as job:
            done = Disturber(job, random.Random(seed)).carry_out(plan, holds_between)
            ends = job.wait()
            accuracies = {end["test_accuracy"] for end in ends}
            hashes = job.weights()
            if len(hashes) != 1 or len(accuracies) != 1:
                raise RuntimeError(f"job {name}: its workers end with different weights")
            job.audit()
            worlds = {event["generation"] for event in job.events if event["event"] == "step"}
            return Outcome(100 * accuracies.pop(), hashes.pop(), *done, len(worlds),
                           ends[0]["test_samples"])


@dataclasses.dataclass
class Pair:
    """The same training, undisturbed and disturbed."""

    task: str
    seed: int
    alone: Outcome
    changed: Outcome

    @property
    def points(self):
        return self.changed.accuracy - self.alone.accuracy


def train_pairs(trainer, task, virtual, arguments):
    name = "virtual" if virtual else "plain"
    pairs = []
    for seed in range(1, arguments.seeds + 1):
        plan = draw_disturbances(random.Random(seed), arguments.changes, arguments.kills)
        pairs.append(Pair(task, seed, trainer.train(f"{name}-alone", seed, virtual, []),
                          trainer.train(f"{name}-changed", seed, virtual, plan)))
    return pairs


def wrong_with(pairs, virtual, arguments):
    """Returns a sentence for each error."""
    for pair in pairs:
        who = f"{pair.task}, seed {pair.seed}"
        changed = pair.changed
        if (changed.changes, changed.kills) != (arguments.changes, arguments.kills):
            yield (f"{who}: {changed.changes} changes and {changed.kills} kills before the training "
                   "was over; use more --epochs")
        if virtual and changed.weights != pair.alone.weights:
            yield f"{who}: the weights with virtual workers are not the same"
    if not virtual and abs(mean_points(pairs)) > POINTS_MAX:
        yield f"{pairs[0].task}: {mean_points(pairs):+.2f} points over the seeds"


def mean_points(pairs):
    return statistics.mean(pair.points for pair in pairs)


def plain_table(pairs_of_tasks):
    yield "| | seed | alone, % | changed, % | points | changes | kills | worlds |"
    yield "|---|---|---|---|---|---|---|---|"
    for pairs in pairs_of_tasks:
        for pair in pairs:
            yield (f"| {pair.task} | {pair.seed} | {pair.alone.accuracy:.2f} | "
                   f"{pair.changed.accuracy:.2f} | {pair.points:+.2f} | {pair.changed.changes} | "
                   f"{pair.changed.kills} | {pair.changed.worlds} |")
        yield f"| {pairs[0].task} | mean | | | {mean_points(pairs):+.2f} | | | |"


def virtual_table(pairs_of_tasks):
    yield ("| virtual workers | seed | alone, % | changed, % | changes | kills | worlds | "
           "weights alone | weights changed | the same |")
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for pairs in pairs_of_tasks:
        for pair in pairs:
            changed = pair.changed
            same = "yes" if changed.weights == pair.alone.weights else "**no**"
            yield (f"| {pair.task} | {pair.seed} | {pair.alone.accuracy:.2f} | "
                   f"{changed.accuracy:.2f} | {changed.changes} | {changed.kills} | "
                   f"{changed.worlds} | `{pair.alone.weights[:16]}` | `{changed.weights[:16]}` | "
                   f"{same} |")


def machine():
    described = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True,
                               text=True, check=False, cwd=pathlib.Path(__file__).parent)
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        name = next((line.split(":")[1].strip() for line in lines
                     if line.startswith("model name")), "unknown processor")
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return (f"{name}, {os.cpu_count()} cores, {today}, "
            f"commit {described.stdout.strip() or 'unknown'}.")


def page(tables, pairs_of_tasks, arguments):
    units = [f"one sample of the test of {pairs[0].task} is {100 / pairs[0].alone.test_samples:.2f}"
             for pairs in pairs_of_tasks]
    said = {task: f"{options['epochs']} epochs, mini-batches of {options['mini-batch']}"
            for task, options in TASKS.items()}
    return PAGE.format(**said, workers=WORKERS_MAX, virtual=VIRTUAL_WORKERS, machine=machine(),
                       command=f"./dev run accuracy --seeds {arguments.seeds}",
                       tables="\n".join(tables), units=f"In points, {', '.join(units)}.")


def parse_arguments():
    parser = make_parser(__doc__)
    parser.add_argument("--nlc", type=pathlib.Path, help="data_full.json")
    parser.add_argument("--seeds", type=int, default=5, help="[%(default)s]")
    parser.add_argument("--changes", type=int, default=10, help="of the size [%(default)s]")
    parser.add_argument("--kills", type=int, default=2, help="[%(default)s]")
    parser.add_argument("--epochs", type=int, help="other than usual")
    parser.add_argument("--virtual-only", action="store_true", help="only with virtual workers")
    parser.add_argument("--output", type=pathlib.Path, help="a page to be written")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    end_in_order()
    data = {task: path for task, path in (("digits", arguments.digits), ("nlc", arguments.nlc))
            if path is not None and path.is_file()}
    if not data:
        print("skipped: there are no data; --digits and --nlc name them, and the README says where "
              "they are published")
        return SKIPPED
    plain, virtual, wrong = [], [], []
    with tempfile.TemporaryDirectory(prefix="ffdl-accuracy-") as folder:
        for task, path in data.items():
            trainer = Trainer(arguments, pathlib.Path(folder), task, path)
            if not arguments.virtual_only:
                plain.append(train_pairs(trainer, task, False, arguments))
                wrong += wrong_with(plain[-1], False, arguments)
            virtual.append(train_pairs(trainer, task, True, arguments))
            wrong += wrong_with(virtual[-1], True, arguments)
    tables = [*(plain_table(plain) if plain else ()), "", *virtual_table(virtual)]
    print("\n".join(tables))
    for one in wrong:
        print(one, file=sys.stderr)
    if arguments.output is not None:
        arguments.output.write_text(page(tables, virtual, arguments), encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
