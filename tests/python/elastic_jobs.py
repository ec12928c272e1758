"""Jobs for tests: processes that find what `ffdl run` would tell them."""

import json
import os
import signal
import subprocess
import sys
import time

SOON_S = 60.0


def wait_for(condition, what):
    """Its first true value."""
    deadline = time.monotonic() + SOON_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {SOON_S} s in vain until {what}"
        time.sleep(0.02)
    return value


class Job:
    """Workers that are started and ended one by one, and what they print."""

    def __init__(self, folder, program, *arguments, min_workers=1):
        self._folder = folder
        self._command = [sys.executable, "-u", str(program), *map(str, arguments)]
        self._min_workers = min_workers
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
            "FFDL_STORE_SECRET": "of this test",
            "FFDL_JOB": "test",
            "FFDL_WORKER_ID": f"worker-{number}",
            "FFDL_MIN_WORKERS": str(self._min_workers),
        }
        self.lives += 1
        log = self._folder / f"life-{self.lives}.log"
        with log.open("w") as out:
            self._running[number] = subprocess.Popen(
                self._command, env=os.environ | told, stdout=out, stderr=subprocess.STDOUT
            )
        return log

    def ask_to_leave(self, number):
        self._running[number].send_signal(signal.SIGTERM)

    def kill(self, number):
        self._running[number].kill()
        assert self._running.pop(number).wait(SOON_S) == -signal.SIGKILL

    def wait(self, number):
        process = self._running.pop(number)
        try:
            code = process.wait(SOON_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        assert code == 0, "".join(log.read_text() for log in sorted(self._folder.glob("*.log")))


def records(log):
    """What a life has printed as JSON so far, in whole lines."""
    lines = log.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n") and line.startswith("{")]
