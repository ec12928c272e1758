#!/usr/bin/env python3
"""The queries' network in usual PyTorch: the reference for learners on a GPU.

    torch_peer.py --data data_full.json --processes 4 --mini-batches 1 16

One process is a plain loop; several are DistributedDataParallel over gloo, as NCCL refuses
processes that share a GPU. A gradient is of --mini-batches samples in each of them. Features are
computed before the clock starts; nlc computes them while it runs. Gradients of the table are sparse
unless --dense is given, and no feature is dropped.
Prints a line of JSON for each mini-batch: mini_batch, samples_per_s.
"""

import argparse
import itertools
import json
import os
import pathlib
import random
import tempfile
import time
import zlib

import torch

ROWS = 1 << 17
WIDTH = 64
LEARNING_RATE = 0.003
WARM_UP = 20


def features_of(text):
    """Returns table rows and factors: words, word pairs and runs of 2 to 4 letters, as in nlc."""
    words = [f"<{word}>" for word in text.lower().split()]
    pairs = [one + two for one, two in itertools.pairwise(["", *words, ""])]
    runs = [word[i:i + size] for word in words for size in (2, 3, 4)
            for i in range(len(word) - size + 1)]
    rows, factors = [], []
    for kind, found in (("word", words), ("pair", pairs), ("run", runs)):
        rows += [zlib.crc32(f"{kind} {one}".encode()) % ROWS for one in found]
        factors += [max(len(found), 1) ** -0.5] * len(found)
    return torch.tensor(rows), torch.tensor(factors)


class Network(torch.nn.Module):
    def __init__(self, labels, dense):
        super().__init__()
        self.table = torch.nn.EmbeddingBag(ROWS, WIDTH, mode="sum", sparse=not dense)
        self.head = torch.nn.Linear(WIDTH, labels)

    def forward(self, rows, offsets, factors):
        return self.head(self.table(rows, offsets, per_sample_weights=factors))


class Training:
    """One process of the training."""

    def __init__(self, arguments, rank):
        self._device = torch.device(arguments.device)
        entries = json.loads(arguments.data.read_text())["train"]
        names = sorted({label for _, label in entries})
        self._labels = [names.index(label) for _, label in entries]
        self._features = [features_of(text) for text, _ in entries]
        self._order = random.Random(rank)
        torch.manual_seed(0)
        network = Network(len(names), arguments.dense).to(self._device)
        table = torch.optim.Adam if arguments.dense else torch.optim.SparseAdam
        self._optimizers = [table(network.table.parameters(), LEARNING_RATE),
                            torch.optim.Adam(network.head.parameters(), LEARNING_RATE)]
        self._network = network
        if arguments.processes > 1:
            self._network = torch.nn.parallel.DistributedDataParallel(network)

    def step(self, mini_batch):
        samples = self._order.choices(range(len(self._labels)), k=mini_batch)
        rows, factors = zip(*(self._features[i] for i in samples), strict=True)
        ends = list(itertools.accumulate(len(one) for one in rows))
        batch = (torch.cat(rows), torch.tensor([0, *ends[:-1]]), torch.cat(factors))
        labels = torch.tensor([self._labels[i] for i in samples])
        scores = self._network(*(self._there(one) for one in batch))
        for optimizer in self._optimizers:
            optimizer.zero_grad()
        torch.nn.functional.cross_entropy(scores, self._there(labels)).backward()
        for optimizer in self._optimizers:
            optimizer.step()

    def steps(self, count, mini_batch):
        """Returns the duration of the steps, in seconds."""
        self._wait()
        begin = time.perf_counter()
        for _ in range(count):
            self.step(mini_batch)
        self._wait()
        return time.perf_counter() - begin

    def _there(self, tensor):
        if self._device.type != "cuda":
            return tensor
        return tensor.pin_memory().to(self._device, non_blocking=True)

    def _wait(self):
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def agreed(value, arguments):
    """Returns the first process's value."""
    if arguments.processes == 1:
        return value
    told = torch.tensor([value])
    torch.distributed.broadcast(told, 0)
    return int(told)


def train(rank, arguments, folder):
    torch.set_num_threads(1)
    if arguments.processes > 1:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{folder}/meeting", rank=rank,
            world_size=arguments.processes)
    training = Training(arguments, rank)
    for mini_batch in arguments.mini_batches:
        training.steps(WARM_UP, mini_batch)
        one = training.steps(WARM_UP, mini_batch) / WARM_UP
        count = agreed(max(WARM_UP, int(arguments.seconds / one)), arguments)
        seconds = training.steps(count, mini_batch)
        speed = arguments.processes * mini_batch * count / seconds
        if rank == 0:
            print(json.dumps({"mini_batch": mini_batch, "samples_per_s": speed}), flush=True)
    if arguments.processes > 1:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="the data of nlc")
    parser.add_argument("--processes", type=int, default=1,
                        help="processes that share the GPU [%(default)s]")
    parser.add_argument("--mini-batches", type=int, nargs="+", default=[1, 2, 4, 8, 16],
                        help="samples per gradient")
    parser.add_argument("--seconds", type=float, default=2, help="of each [%(default)s]")
    parser.add_argument("--dense", action="store_true", help="gradients of the whole table")
    parser.add_argument("--device", default="cuda", help="[%(default)s]")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.processes == 1:
            return train(0, arguments, folder)
        torch.multiprocessing.spawn(train, (arguments, folder), arguments.processes)


if __name__ == "__main__":
    main()
