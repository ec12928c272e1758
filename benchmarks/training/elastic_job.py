"""A job of real workers (examples/elastic_jobs) under `ffdl run`, and what they say of it."""

import argparse
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import typing

SKIPPED = 77  # exit status, as ctest is told
PATIENCE_S = 120  # of a busy machine


def make_parser(doc):
    """The options that say where programs and digits are."""
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ffdl", type=pathlib.Path, required=True, help="the command")
    parser.add_argument("--worker", type=pathlib.Path, required=True, help="elastic_worker")
    parser.add_argument("--digits", type=pathlib.Path, help="digits.csv.gz")
    return parser


def end_in_order():
    """SIGTERM ends the jobs too, which the kernel would leave running."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


class TrainingOver(Exception):
    """The training ended while something was still waited for."""


class Programs(typing.NamedTuple):
    ffdl: pathlib.Path  # the command
    worker: pathlib.Path  # examples/elastic_jobs


class ElasticJob:
    """Starts with as many workers as it may have. When the `with` ends, so do they."""

    def __init__(self, programs, name, folder, task, data, workers, options):
        self._programs = programs
        self._name = name
        self._folder = folder
        self._folder.mkdir(parents=True)
        self._read = {}  # of each worker's file: how far
        self.events = []
        self._output = open(folder / "output", "w", encoding="utf-8")
        # The store's folder is among the temporary ones.
        self._environment = {**os.environ, "TMPDIR": str(folder)}
        command = [programs.ffdl, "run", "--workers", f"1:{workers}", "--job", name,
                   "--max-restarts", "4", programs.worker, task, "--data", data, "--out", folder]
        for option, value in options.items():
            command += [f"--{option}", str(value)]
        self._process = subprocess.Popen(command, stdout=self._output, stderr=self._output,
                                         env=self._environment)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()  # the kernel kills its workers then
                self._process.wait()
        self._output.close()

    def scale(self, workers):
        self._ask("scale", self._name, workers)

    def kill(self, pid):
        if all(event["pid"] != pid for event in self.events):
            raise ValueError(f"job {self._name}: no worker has said that it is process {pid}")
        os.kill(pid, signal.SIGKILL)

    def hold(self, on):
        """While it is on the workers take their --hold-ms for each step."""
        if on:
            (self._folder / "hold").touch()
        else:
            (self._folder / "hold").unlink()

    def look(self):
        """What workers have written since the last look, each one's in order."""
        new = []
        for path in sorted(self._folder.glob("steps-*.jsonl")):
            with open(path, encoding="utf-8") as file:
                file.seek(self._read.get(path, 0))
                while (line := file.readline()).endswith("\n"):
                    new.append({**json.loads(line), "worker": path.stem.removeprefix("steps-")})
                    self._read[path] = file.tell()
        self.events += new
        return new

    def wait_for(self, condition, patience_s=PATIENCE_S):
        """Until condition(what is new) is true. Raises TrainingOver, TimeoutError."""
        until = time.monotonic() + patience_s
        while True:
            is_over = self._process.poll() is not None
            if condition(self.look()):
                return
            if is_over:
                raise TrainingOver(self._said())
            if time.monotonic() > until:
                raise TimeoutError(f"job {self._name}: what is waited for has not come in "
                                   f"{patience_s} s\n{self._said()}")
            time.sleep(0.002)

    def wait(self):
        """Until the training has ended. Returns what its workers said at the end."""
        try:
            self.wait_for(lambda _: False, 10 * PATIENCE_S)
        except TrainingOver:
            pass
        if self._process.returncode != 0:
            raise RuntimeError(f"job {self._name}: exit code {self._process.returncode}\n"
                               f"{self._said()}")
        return [event for event in self.events if event["event"] == "end"]

    def weights(self):
        """The hashes of the final weights of those who have trained to the end."""
        return {hashlib.sha256(path.read_bytes()).hexdigest()
                for path in self._folder.glob("weights-*.bin")}

    def audit(self):
        """Raises unless the logs of all members prove that each sample was used once per epoch."""
        self._ask("data", "audit", "--complete", *sorted(self._folder.glob("commits-*.log")))

    def _ask(self, *words):
        asked = subprocess.run([self._programs.ffdl, *map(str, words)], check=False, text=True,
                               capture_output=True, env=self._environment)
        if asked.returncode != 0:
            raise RuntimeError(f"job {self._name}: 'ffdl {words[0]}' ended with "
                               f"{asked.returncode}: {asked.stdout}{asked.stderr}")

    def _said(self):
        self._output.flush()
        return (self._folder / "output").read_text(encoding="utf-8")
