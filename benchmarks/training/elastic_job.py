"""A job of real workers (examples/elastic_jobs) under `ffdl run`, and their output."""

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

SKIPPED = 77  # exit status for ctest
PATIENCE_S = 120  # on a busy machine


def make_parser(doc):
    """Makes the options that name the programs and the digits."""
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ffdl", type=pathlib.Path, required=True, help="the command")
    parser.add_argument("--worker", type=pathlib.Path, required=True, help="elastic_worker")
    parser.add_argument("--digits", type=pathlib.Path, help="digits.csv.gz")
    return parser


def end_in_order():
    """Makes SIGTERM end the jobs, too; the kernel would leave them running."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


class TrainingOver(Exception):
    """The training ended during a wait for an event."""


class Programs(typing.NamedTuple):
    ffdl: pathlib.Path  # the command
    worker: pathlib.Path  # examples/elastic_jobs


class ElasticJob:
    """Starts with as many workers as it may have. The end of the `with` ends them."""

    def __init__(self, programs, name, folder, task, data, workers, options):
        self._programs = programs
        self._name = name
        self._folder = folder
        self._folder.mkdir(parents=True)
        self._read = {}  # position in each worker's file
        self.events = []
        self._output = open(folder / "output", "w", encoding="utf-8")
        # The store's folder is in the folder for temporary files.
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
                self._process.kill()  # the kernel then kills its workers
                self._process.wait()
        self._output.close()

    def scale(self, workers):
        self._ask("scale", self._name, workers)

    def kill(self, pid):
        if all(event["pid"] != pid for event in self.events):
            raise ValueError(f"job {self._name}: no worker has said that it is process {pid}")
        os.kill(pid, signal.SIGKILL)

    def hold(self, on):
        """While on, the workers take their --hold-ms for each step."""
        if on:
            (self._folder / "hold").touch()
        else:
            (self._folder / "hold").unlink(missing_ok=True)

    def look(self):
        """Returns the workers' new lines, each worker's in order."""
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
        """Waits until condition(new lines) is true. Raises TrainingOver, TimeoutError."""
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
        """Waits for the end of the training. Returns the workers' last lines."""
        try:
            self.wait_for(lambda _: False, 10 * PATIENCE_S)
        except TrainingOver:
            pass
        if self._process.returncode != 0:
            raise RuntimeError(f"job {self._name}: exit code {self._process.returncode}\n"
                               f"{self._said()}")
        return [event for event in self.events if event["event"] == "end"]

    def weights(self):
        """Returns the hashes of the final weights of the workers that trained to the end."""
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
