#!/usr/bin/env python3
"""Fits a line to points that are spread over processes, which this program starts itself.

Each process has points of its own, computes the gradient of their squared error, and gets the mean
of all gradients by an all_reduce. The gradient is in shared memory, so nothing is copied. All end
with the same weights, bit for bit.
"""

import argparse
import multiprocessing
import sys
import tempfile

import numpy as np

import ffdl

SLOPE, OFFSET = 2.5, -1.0
POINTS = 1000  # in each process


def fit(rank, ranks, url, steps, results):
    members = [f"process-{i}" for i in range(ranks)]
    world = ffdl.World(generation=1, rank=rank, members=members)
    communicator = ffdl.connect_communicator(world, ffdl.open_store(url))
    gradient = ffdl.shared_array(2, np.float64)
    communicator.register_memory(gradient)

    random = np.random.default_rng(rank)
    x = random.uniform(-1, 1, POINTS)
    y = SLOPE * x + OFFSET + random.normal(0, 0.1, POINTS)
    weights = np.zeros(2)
    for _ in range(steps):
        error = weights[0] * x + weights[1] - y
        gradient[:] = (error * x).mean(), error.mean()
        communicator.all_reduce(gradient, ffdl.ReduceOp.MEAN)
        weights -= 0.5 * gradient
    results.put((rank, weights.tolist()))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="processes [%(default)s]")
    parser.add_argument("--steps", type=int, default=200, help="of gradient descent [%(default)s]")
    arguments = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        results = spawn.SimpleQueue()
        processes = [
            spawn.Process(target=fit, args=(rank, arguments.ranks, f"file://{folder}",
                                            arguments.steps, results))
            for rank in range(arguments.ranks)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        if any(process.exitcode != 0 for process in processes):
            return 1  # it has printed the reason
        weights = dict(results.get() for _ in processes)
    for rank in sorted(weights):
        print(f"rank {rank}: slope {weights[rank][0]:.3f}, offset {weights[rank][1]:.3f}")
    same = all(found == weights[0] for found in weights.values())
    print("the same bits everywhere" if same else "the ranks differ")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
