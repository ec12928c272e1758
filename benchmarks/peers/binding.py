"""The cost of a call without other members: all_reduce of 4 bytes in a world of one.

usage: binding.py
"""

import functools

import numpy as np
import resident

import ffdl


def make_step(rank):
    world = ffdl.World(generation=1, rank=rank, members=["a"])
    communicator = ffdl.connect_communicator(world, ffdl.open_store("mem://"))
    return functools.partial(communicator.all_reduce, np.ones(1, np.float32))


if __name__ == "__main__":
    resident.serve(1, make_step)
