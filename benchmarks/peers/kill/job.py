"""The common part of the jobs of bench_kill.py: numbered samples, a model, a log of the steps."""

import os
import pathlib
import time

import torch

SAMPLES = int(os.environ["KILL_SAMPLES"])
BATCH = int(os.environ["KILL_BATCH"])  # samples of a step, of all workers
EPOCHS = int(os.environ["KILL_EPOCHS"])
WIDTH = int(os.environ.get("KILL_WIDTH", "1000"))
SLOW_S = float(os.environ.get("KILL_SLOW_S", "0"))  # of each step before the kill, for a test

folder = pathlib.Path(os.environ["KILL_FOLDER"])  # of the logs and of what the job keeps


class Samples(torch.utils.data.Dataset):
    """Pairs of equal vectors, each with its number."""

    def __init__(self):
        self.values = torch.rand(SAMPLES, WIDTH, generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return SAMPLES

    def __getitem__(self, number):
        return self.values[number], self.values[number], number


def make_model():
    """Returns a network, of 16 MB where WIDTH is 1000, equal in all processes."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(4)))


class StepLog:
    """The steps of this process. A line begins with its time in ns.

    ``try STEP NUMBER...``: it computes the gradient of these samples for the step.
    ``did STEP GENERATION WORKERS``: the step is done, by so many workers. Of two lines about one step,
    that of the larger generation tells what the model has.

    The first two processes begin together, so that none trains alone before the kill.
    """

    def __init__(self):
        self._file = (folder / f"steps-{os.getpid()}").open("w")
        while len(list(folder.glob("steps-*"))) < 2:
            time.sleep(0.001)

    def will(self, step, numbers):
        self._write("try", step, *numbers.tolist())

    def did(self, step, generation, workers):
        self._write("did", step, generation, workers)
        if SLOW_S and not (folder / "killed").exists():
            time.sleep(SLOW_S)

    def _write(self, *words):
        print(time.monotonic_ns(), *words, file=self._file, flush=True)  # it survives a kill
