#!/usr/bin/env python3
"""Measures what kill -9 of one of two workers costs a job: of ffdl, of torchrun and of torchft.

    ./dev bench kill           5 kills of each
    ./dev bench kill --slow    20 kills of each

benchmarks/peers/kill has the same job for each. A worker that is drawn at random is killed at a
random step. Each process logs the samples of each step that it did.
"""

import argparse
import collections
import contextlib
import dataclasses
import difflib
import math
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from rows import publish, row

JOBS = pathlib.Path(__file__).parent / "peers" / "kill"
SAMPLES = 4096
BATCH = 64  # samples of a step, of all workers
EVERY = 20  # steps between two snapshots of restart.py
LIMIT_S = 180  # of one run


@dataclasses.dataclass(frozen=True)
class Line:
    """A process's word on a step: that it computes it, or that it did it."""

    seconds: float
    process: int
    did: bool
    step: int
    numbers: tuple = ()  # of the samples that it computes
    generation: int = 0
    workers: int = 0


def lines_of(folder):
    lines = []
    for file in folder.glob("steps-*"):
        process = int(file.name.split("-")[1])
        for text in file.read_text().splitlines(keepends=True):
            if not text.endswith("\n"):
                continue  # it was killed meanwhile
            at, kind, *rest = text.split()
            step, *rest = map(int, rest)
            lines.append(Line(int(at) / 1e9, process, True, step, (), *rest) if kind == "did" else
                         Line(int(at) / 1e9, process, False, step, tuple(rest)))
    return sorted(lines, key=lambda line: line.seconds)


def in_model(lines):
    """The numbers of the samples that the model has, step by step.

    A step is the one of its last generation. A worker that was killed before it could say that it had
    done the step is among the `workers` of the others.
    """
    tries, dones = collections.defaultdict(dict), collections.defaultdict(list)
    for line in lines:
        if line.did:
            # At that moment the last try of the process for this step was the one that counts.
            dones[line.step].append((line, tries[line.step].get(line.process)))
        else:
            tries[line.step][line.process] = line
    for step, said in dones.items():
        last = max(line.generation for line, _ in said)
        of_last = {line.process: tried for line, tried in said if line.generation == last}
        workers = max(line.workers for line, _ in said if line.generation == last)
        silent = [tried for process, tried in tries[step].items() if process not in of_last]
        for tried in [*of_last.values(), *silent[:workers - len(of_last)]]:
            yield from tried.numbers


def cost_of(lines, killed_at, samples, epochs):
    """Returns the cost of the kill, by the lines of all processes of the job."""
    known = {line.process for line in lines if line.seconds <= killed_at}
    again = [line.seconds for line in lines if line.did and line.process not in known]
    done, at, pauses = 0, killed_at, []
    for line in lines:
        if line.did and line.step > done:
            if line.seconds > killed_at:
                pauses.append(line.seconds - at)
            done, at = line.step, line.seconds
    counts = collections.Counter(in_model(lines))
    computed = sum(len(line.numbers) for line in lines if not line.did)
    return {
        "pause_s": max(pauses, default=math.inf),
        "alone_s": min(again, default=math.inf) - killed_at,
        "missing": sum(max(0, epochs - counts[number]) for number in range(samples)),
        "repeated": sum(max(0, counts[number] - epochs) for number in range(samples)),
        "computed_in_vain": computed - sum(counts.values()),
    }


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Programs:
    """Programs with groups of their own, which end with the block."""

    def __init__(self, python, folder, epochs):
        self._python = python
        self._log = (folder / "log").open("w")
        self._environment = os.environ | {
            "KILL_FOLDER": str(folder), "KILL_SAMPLES": str(SAMPLES), "KILL_BATCH": str(BATCH),
            "KILL_EPOCHS": str(epochs), "KILL_EVERY": str(EVERY), "OMP_NUM_THREADS": "1",
            "PATH": f"{pathlib.Path(python).parent}:{os.environ['PATH']}"}
        self._programs = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in self._programs:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGTERM)
        for program in self._programs:
            try:
                program.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(program.pid, signal.SIGKILL)
                program.wait()
        self._log.close()

    def start(self, *command, **environment):
        program = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT,
            env=self._environment | environment, start_new_session=True)
        self._programs.append(program)
        return program

    def torchrun(self, job, processes, **environment):
        return self.start(self._python, "-m", "torch.distributed.run", "--nnodes", "1",
                          "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{free_port()}",
                          "--nproc-per-node", str(processes), "--max-restarts", "3",
                          str(JOBS / job), **environment)


def start_restart(programs):
    # Without this variable the restarted workers of torchrun 2.13 use the store of the killed ones. They
    # may find the old addresses of gloo in it: 2 of 5 jobs failed or hung.
    return [programs.torchrun("restart.py", 2, TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")]


def start_torchft(programs):
    # The options of torchft's own README, but for the shorter time until a silent group is dead.
    address = f"127.0.0.1:{free_port()}"
    programs.start("torchft_lighthouse", "--bind", address, "--min_replicas", "1",
                   "--quorum_tick_ms", "100", "--join_timeout_ms", "10000",
                   "--heartbeat_timeout_ms", "1000")
    return [programs.torchrun("torchft_job.py", 1, REPLICA_GROUP_ID=str(group),
                              TORCHFT_LIGHTHOUSE=f"http://{address}") for group in range(2)]


def start_ffdl(programs):
    return [programs.start("ffdl", "run", "--workers", "1:2", str(JOBS / "ffdl_job.py"))]


@dataclasses.dataclass(frozen=True)
class Peer:
    name: str
    job: str
    start: object


PEERS = [Peer("ffdl", "ffdl_job.py", start_ffdl), Peer("torchrun", "restart.py", start_restart),
         Peer("torchft", "torchft_job.py", start_torchft)]


def wait_for(what, is_true, started, until):
    while not is_true():
        codes = [one.poll() for one in started]
        if any(codes) or (None not in codes and not is_true()):
            raise RuntimeError(f"it ended with {codes} before its {what}")
        if time.monotonic() > until:
            raise RuntimeError(f"it has no {what} after {LIMIT_S} s")
        time.sleep(0.01)


def run(peer, python, epochs, kill_after, draw, kills):
    """Runs the job once, kills a worker after that step, and returns the cost."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def workers():
            return {line.process for line in lines_of(folder)
                    if line.did and line.step >= kill_after}

        try:
            with Programs(python, folder, epochs) as programs:
                until = time.monotonic() + LIMIT_S
                started = peer.start(programs)
                wait_for("second worker at that step", lambda: len(workers()) == 2, started, until)
                time.sleep(draw.uniform(0, 0.1))
                killed_at = time.monotonic()
                if kills:
                    os.kill(draw.choice(sorted(workers())), signal.SIGKILL)
                    (folder / "killed").touch()
                wait_for("end", lambda: all(one.poll() == 0 for one in started), started, until)
            return cost_of(lines_of(folder), killed_at, SAMPLES, epochs)
        except RuntimeError as error:
            last = (folder / "log").read_text(errors="replace").splitlines()[-20:]
            raise RuntimeError("\n".join([f"{peer.name}: {error}", *last])) from error


def changed_lines(job):
    """Counts the lines of code that only the job has ("+"), and those that only ddp.py has ("-")."""
    def code(name):
        text = (JOBS / name).read_text().split('"""', 2)[2]
        return [line for line in text.splitlines()
                if line.strip() and not line.startswith("#") and "# measures" not in line]
    difference = list(difflib.unified_diff(code("ddp.py"), code(job), lineterm="", n=0))[2:]
    return {sign: sum(line.startswith(sign) for line in difference) for sign in "+-"}


UNITS = {"pause_s": ("s", "longest time without a new step, from the kill to the end"),
         "alone_s": ("s", "from the kill to the first step of a new process"),
         "missing": ("samples", "in no step of the model, of all epochs"),
         "repeated": ("samples", "in the model more often than once an epoch"),
         "computed_in_vain": ("samples", "whose gradient the model has not")}


def rows_of(peer, costs, failed, kills):
    def median(name, values, unit, note):
        return row(f"kill/{peer.name}/{name}", statistics.median(values) if values else None, unit,
                   note=note, bounds=(min(values), max(values)) if len(values) > 1 else (None, None))

    if not costs[True]:
        why = failed[0].splitlines()[0] if failed else "no kills were asked for"
        yield row(f"kill/{peer.name}", None, "", note=f"has no figures: {why}")
        return
    for what, (unit, note) in UNITS.items():
        values = [cost[what] for cost in costs[True]]
        yield median(what, values, unit, f"{note}; median, least and most of {len(values)} kills")
    yield median("pause_s/no_kill", [cost["pause_s"] for cost in costs[False]], "s",
                 "the same without a kill")
    yield row(f"kill/{peer.name}/failed", len(failed), "jobs",
              note=f"of {kills + 1} that did not end well")
    changed = changed_lines(peer.job)
    yield row(f"kill/{peer.name}/lines_added", changed["+"], "lines", note="against ddp.py")
    yield row(f"kill/{peer.name}/lines_removed", changed["-"], "lines", note="against ddp.py")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=pathlib.Path, required=True, help="the file to write")
    parser.add_argument("--kills", type=int, help="of each peer (default 5, or 20 with --slow)")
    parser.add_argument("--epochs", type=int, default=4, help="of the job")
    parser.add_argument("--only", action="append", choices=[peer.name for peer in PEERS],
                        help="this one alone; may be repeated")
    parser.add_argument("--seed", type=int, default=1, help="of the steps and the workers")
    parser.add_argument("--slow", action="store_true", help="20 kills of each")
    options = parser.parse_args()
    kills = options.kills or (20 if options.slow else 5)
    peers = [peer for peer in PEERS if not options.only or peer.name in options.only]
    steps = options.epochs * SAMPLES // BATCH
    draw = random.Random(options.seed)
    costs = {peer.name: {False: [], True: []} for peer in peers}
    failed = {peer.name: [] for peer in peers}
    for kill in [False] + [True] * kills:
        after = draw.randrange(steps // 4, steps // 2)
        for peer in peers:  # in turn, so that all see the same machine
            try:
                cost = run(peer, sys.executable, options.epochs, after, draw, kill)
            except RuntimeError as error:
                failed[peer.name].append(str(error))
                print(error, file=sys.stderr)
                continue
            costs[peer.name][kill].append(cost)
            print(f"{peer.name:9} {'killed' if kill else 'not killed'} after step {after:3}: "
                  + ", ".join(f"{what} {value:.3g}" for what, value in cost.items()),
                  file=sys.stderr)
    rows = [one for peer in peers
            for one in rows_of(peer, costs[peer.name], failed[peer.name], kills)]
    only = "".join(f" --only {name}" for name in options.only or [])
    publish(rows, f"bench_kill --kills {kills} --epochs {options.epochs} --seed {options.seed}{only}",
            options.json)
    return 1 if any(failed.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
