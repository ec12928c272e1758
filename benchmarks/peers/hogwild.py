"""Hogwild in PyTorch's usual form: one shared tensor, added to without a lock.

Updates can get lost.

usage: hogwild.py WORKERS FLOATS; one step is a push (add a gradient) and a pull (copy the weights).
"""

import sys

import resident
import torch


def make_step(rank, weights):
    gradient = torch.full_like(weights, 0.5)
    own = torch.zeros_like(weights)

    @torch.inference_mode()
    def push_and_pull():
        weights.add_(gradient, alpha=-1e-6)
        own.copy_(weights)

    return push_and_pull


def main():
    workers, floats = map(int, sys.argv[1:])
    weights = torch.zeros(floats).share_memory_()
    resident.serve(workers, make_step, weights)


if __name__ == "__main__":
    main()
