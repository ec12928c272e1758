#!/usr/bin/env python3
"""Trains on a format that ffdl does not know: images in an IDX file, as used by MNIST.

    python examples/09_own_source.py [--processes 2]

A data set of your own returns its number of samples and the samples that are requested.
ElasticLoader does the rest: it assigns the samples, runs processes that load ahead, and uses each
image once per epoch, with or without other workers.
"""

import argparse
import os
import struct
import sys
import tempfile

import numpy as np

import ffdl


class IdxImages:
    """Pickled and forked as any object: each process that loads has a copy."""

    def __init__(self, path):
        with open(path, "rb") as file:
            magic, *shape = struct.unpack(">4I", file.read(16))
        size = 16 + shape[0] * shape[1] * shape[2]
        if magic != 0x803 or os.path.getsize(path) != size:
            raise ffdl.Corrupt(
                f"open '{path}': no IDX file of {size} bytes with images; copy it again")
        self._images = np.memmap(path, np.uint8, "r", offset=16, shape=tuple(shape))

    def __len__(self):
        return len(self._images)

    def __getitem__(self, number):
        return self._images[number] / np.float32(255)

    def __getitems__(self, numbers):
        """Returns a whole batch at once, which is faster; this method is optional."""
        return list(self._images[numbers] / np.float32(255))


def write_images(path, count):
    """Writes generated images, each with the value of its number."""
    images = np.repeat(np.arange(count, dtype=np.uint8), 28 * 28)
    with open(path, "wb") as file:
        file.write(struct.pack(">4I", 0x803, count, 28, 28) + images.tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2, help="that load ahead [%(default)s]")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_images(folder + "/images", 200)
        data = IdxImages(folder + "/images")
        # One worker, by itself. Several share a store: tcp:// on one host, etcd:// on many. With a
        # session leave store and id out, and use loader.batches(session).
        loader = ffdl.data.ElasticLoader(
            data, batch_samples=16, epochs=2, order=ffdl.SampleOrder.ON_DEMAND,
            partition_samples=50, store=ffdl.open_store("mem://"), id="worker-0",
            num_workers=arguments.processes)
        times = np.zeros(len(data), int)
        with loader:
            for _, images in loader.all_parts():
                numbers = np.rint(images[:, 0, 0] * 255).astype(int)  # a model would train here
                np.add.at(times, numbers, 1)
                loader.ledger.commit()
    assert (times == 2).all()
    print(f"{len(times)} images, each used once in each of 2 epochs")


if __name__ == "__main__":
    sys.exit(main())
