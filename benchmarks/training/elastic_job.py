"""A job of real workers (examples/elastic), run by `ffdl run`, and what its workers say of it."""

import hashlib
import json
import os
import pathlib
import signal
import subprocess
import time

WORKERS_MAX = 4


class TrainingOver(Exception):
    """The training ended while something was still waited for."""


class Programs:
    """Where the command and the worker are."""

    def __init__(self, build):
        build = pathlib.Path(build)
        self.ffdl = build / "src/cli/ffdl"
        self.worker = build / "examples/elastic/elastic_worker"


class ElasticJob:
    """Starts with as many workers as there are at most. To be used in `with`: what still runs when
    it ends is asked to leave."""

    def __init__(self, programs, name, folder, task, data, workers, options):
        self._programs = programs
        self.name = name
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self._read = {}  # of each worker's file: how far
        self.events = []
        self.errors = open(self.folder / "errors", "w", encoding="utf-8")
        command = [programs.ffdl, "run", "--workers", f"1:{workers}", "--job", name,
                   "--max-restarts", "20", "--log-dir", self.folder, programs.worker, task,
                   "--data", data, "--out", self.folder]
        for option, value in options.items():
            command += [f"--{option}", str(value)]
        self._process = subprocess.Popen(command, stdout=self.errors, stderr=self.errors)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self.errors.close()

    def ask(self, *words):
        """ffdl WORDS, of this job."""
        subprocess.run([self._programs.ffdl, *map(str, words)], check=True,
                       stdout=self.errors, stderr=self.errors)

    def scale(self, workers):
        self.ask("scale", self.name, workers)

    def look(self):
        """Reads what workers have written since. Returns the new events, each worker's in order."""
        new = []
        for path in sorted(self.folder.glob("worker-*.jsonl")):
            with open(path, encoding="utf-8") as file:
                file.seek(self._read.get(path, 0))
                while (line := file.readline()).endswith("\n"):
                    new.append({**json.loads(line), "worker": path.stem.removeprefix("worker-")})
                    self._read[path] = file.tell()
        self.events += new
        return new

    def wait_for(self, condition, patience_s=120):
        """Until condition(new events) of some look is true. Errors: TrainingOver, TimeoutError."""
        until = time.monotonic() + patience_s
        while True:
            is_over = self._process.poll() is not None
            if (found := condition(self.look())) is not None:
                return found
            if is_over:
                raise TrainingOver
            if time.monotonic() > until:
                raise TimeoutError(f"job {self.name}: nothing of what was waited for in "
                                   f"{patience_s} s; its output is in {self.folder}")
            time.sleep(0.002)

    def wait(self):
        """Until the training has ended. Returns how its workers ended."""
        try:
            self.wait_for(lambda new: None, 600)
        except TrainingOver:
            pass
        if self._process.returncode != 0:
            raise RuntimeError(f"job {self.name}: exit code {self._process.returncode}; its output "
                               f"is in {self.folder}")
        return [event for event in self.events if event["event"] == "end"]

    def weights(self):
        """A hash of the final weights of each worker that has trained to the end."""
        return {hashlib.sha256(path.read_bytes()).hexdigest()
                for path in self.folder.glob("weights-*.bin")}

    def audit(self):
        """Fails unless the logs of all members prove that each sample was used once per epoch."""
        self.ask("data", "audit", "--complete", *sorted(self.folder.glob("commits-*.log")))


def kill(pid):
    os.kill(pid, signal.SIGKILL)
