"""Batches of a data set, one per step of a session of one worker.

usage: loader.py ffdl|torch BYTES MINI_BATCH WORKERS

BYTES: of a sample, a tensor that the data set creates each time. WORKERS: processes that load.
"""

import itertools
import sys

import numpy as np
import resident
import torch

import ffdl

SAMPLES = 4096


class Samples(torch.utils.data.Dataset):
    def __init__(self, size):
        self._sample = torch.zeros(size, dtype=torch.uint8)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, number):
        return self._sample.clone()


def batches_of_torch(dataset, mini_batch, workers):
    loader = torch.utils.data.DataLoader(
        dataset, mini_batch, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    return itertools.chain.from_iterable(itertools.repeat(loader)).__next__


def make_step(rank, kind, size, mini_batch, workers):
    loader = ffdl.data.ElasticLoader(
        Samples(size), batch_samples=mini_batch, epochs=0,
        num_workers=workers if kind == "ffdl" else 0)
    session = ffdl.Session.open(
        ffdl.open_store("mem://"), id="a", state=np.zeros(1), gradients=np.zeros(1),
        apply=lambda: None, participants=[loader.ledger])
    take = loader.next
    if kind == "torch":
        theirs = batches_of_torch(Samples(size), mini_batch, workers)

        def take():
            loader.ledger.take()
            return theirs()

    def step():
        batch = take()
        if batch.shape[1] != size:
            raise RuntimeError(f"a batch of {batch.shape}")
        session.end_step(loader.taken)

    for _ in range(16):  # processes have started, and their memory is touched
        step()
    return step


def main():
    kind = sys.argv[1]
    size, mini_batch, workers = map(int, sys.argv[2:])
    resident.serve(1, make_step, kind, size, mini_batch, workers)


if __name__ == "__main__":
    main()
