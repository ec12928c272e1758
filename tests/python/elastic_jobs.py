"""Jobs for tests: processes that find what `ffdl run` would tell them."""

import collections
import json
import multiprocessing
import os
import re
import runpy
import signal
import subprocess
import sys
import time

import ffdl
from elastic_worker import PARTITION, SAMPLES

SOON_S = 120.0
SECRET = "of this test"

# Whose processes have imported what takes long.
FORKED = multiprocessing.get_context("forkserver")
# Packages that are missing are passed over. The first optimizer imports torch._dynamo.
FORKED.set_forkserver_preload(["numpy", "torch", "torch._dynamo", "ffdl.torch"])


def wait_for(condition, what, soon_s=SOON_S):
    """Its first true value."""
    deadline = time.monotonic() + soon_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {soon_s} s in vain until {what}"
        time.sleep(0.02)
    return value


def _become(command, told, log):
    os.environ.update(told)
    out = log.open("w", buffering=1)
    for number in (1, 2):
        os.dup2(out.fileno(), number)
    sys.stdout = sys.stderr = out
    sys.argv = command
    multiprocessing.set_start_method("fork", force=True)  # as where nobody has chosen one
    runpy.run_path(command[0], run_name="__main__")


class ForkedProgram:
    """A program of Python that begins in no time; what it has of subprocess.Popen."""

    def __init__(self, command, told, log):
        log.touch()
        self._process = FORKED.Process(target=_become, args=(command, told, log))
        self._process.start()

    def send_signal(self, number):
        os.kill(self._process.pid, number)

    def kill(self):
        self._process.kill()

    def wait(self, timeout=None):
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout)
        return self._process.exitcode


def serve_store(folder):
    """Serves a job's store from this process, which is never stopped."""
    return ffdl.StoreServer.start(folder=str(folder / "store"), secret=SECRET)


class Job:
    """Workers that are started and ended one by one, and what they print."""

    def __init__(self, folder, program, *arguments, min_workers=1, forks=False, more=None):
        """more: variables beside those of `ffdl run`."""
        self._more = more or {}
        self._folder = folder
        self._command = [str(program), *map(str, arguments)]
        self._min_workers = min_workers
        self._forks = forks
        self._running = {}
        self.lives = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self._running.values():
            process.kill()
            process.wait()

    def start(self, number):
        told = {
            "FFDL_STORE": f"tcp://{self._folder}/store",
            "FFDL_STORE_SECRET": SECRET,
            "FFDL_JOB": "test",
            "FFDL_WORKER_ID": f"worker-{number}",
            "FFDL_MIN_WORKERS": str(self._min_workers),
            "OMP_NUM_THREADS": "1",
        } | self._more
        self.lives += 1
        log = self._folder / f"life-{self.lives}.log"
        if self._forks:
            self._running[number] = ForkedProgram(self._command, told, log)
            return log
        with log.open("w") as out:
            self._running[number] = subprocess.Popen(
                [sys.executable, "-u", *self._command], env=os.environ | told, stdout=out,
                stderr=subprocess.STDOUT,
            )
        return log

    def ask_to_leave(self, number):
        self._running[number].send_signal(signal.SIGTERM)

    def is_running(self, number):
        return number in self._running

    def kill(self, number):
        self._running[number].kill()
        assert self._running.pop(number).wait(SOON_S) == -signal.SIGKILL

    def stand_still(self, number):
        """Stops a worker with all of its threads until go_on(); it does not fork."""
        process = self._running[number]
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def go_on(self, number):
        self._running[number].send_signal(signal.SIGCONT)

    def wait(self, number):
        process = self._running.pop(number)
        try:
            code = process.wait(SOON_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        assert code == 0, "".join(log.read_text() for log in sorted(self._folder.glob("*.log")))


def run_workers(folder, workers, program, *arguments):
    """The lines that each printed, of a job that has begun with all of them; no lines of a log."""
    with Job(folder, program, *arguments, min_workers=workers) as job:
        logs = [job.start(number) for number in range(workers)]
        for number in range(workers):
            job.wait(number)
    printed = [log.read_text().splitlines() for log in logs]
    return [[line for line in lines if not line.startswith("ffdl ")] for lines in printed]


def records(log):
    """What a life has printed as JSON so far, in whole lines."""
    lines = log.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n") and line.startswith("{")]


def size_of(log):
    """Of the world that a life has printed last; 0 before it has trained."""
    with log.open("rb") as lines:
        lines.seek(max(0, log.stat().st_size - 4096))
        sizes = re.findall(rb'"size": (\d+)', lines.read())
    return int(sizes[-1]) if sizes else 0


def churn(folder, worker):
    """What each life of a job's workers printed that come, leave, are killed and come again.

    All have had the same states after the same steps.
    """
    end = folder / "end"
    with Job(folder, worker, end) as job:

        def start(number):
            log = job.start(number)
            wait_for(lambda: size_of(log), f"{log.name} trains")
            return log

        def size_is(log, size):
            wait_for(lambda: size_of(log) == size, f"the size is {size}")

        first = start(0)
        start(1)
        size_is(first, 2)
        job.ask_to_leave(1)
        job.wait(1)
        size_is(first, 1)
        start(1)
        size_is(first, 2)
        job.kill(1)
        size_is(first, 1)
        second = start(1)
        job.kill(0)  # the only one that has been there all the time
        size_is(second, 1)
        start(0)
        size_is(second, 2)
        end.touch()
        job.wait(0)
        job.wait(1)
    lives = [records(log) for log in sorted(folder.glob("life-*.log"))]
    states = {}
    for one in (one for life in lives for one in life if "step" in one):
        assert states.setdefault(one["step"], one["state"]) == one["state"]
    return lives


def committed_steps(lives):
    """What lives have told of each step that is stable: the same, whoever told it."""
    stable = {}
    for one in (one for life in lives for one in life if "stable" in one):
        assert stable.setdefault(one["stable"], one["parts"]) == one["parts"]
    return stable


def expect_each_sample_once(stable):
    """No sample was used twice in an epoch, and none was left out of an epoch that is over.

    stable: the ranges of each step. Epoch e of a partition begins at e * PARTITION.
    """
    uses = collections.Counter(
        (partition, position) for ranges in stable.values() for partition, begin, end in ranges
        for position in range(begin, end))
    assert set(uses.values()) == {1}
    last = max(position for _, position in uses) // PARTITION
    over = {(partition, position) for partition in range(SAMPLES // PARTITION)
            for position in range(last * PARTITION)}
    # In the last epoch two workers may be in the two halves of a partition as the job ends.
    assert {use for use in uses if use[1] < last * PARTITION} == over
    assert {partition for partition, _ in uses} == set(range(SAMPLES // PARTITION))
