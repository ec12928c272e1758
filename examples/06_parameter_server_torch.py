#!/usr/bin/env python3
"""Sorts short customer queries by intent, with PyTorch learners and a parameter server.

    ffdl run --workers 2 examples/06_parameter_server_torch.py --data data_full.json

starts two learners, which share the queries. A fast one gets more of them, and either may be
killed: each query is still used once per epoch. The program also works alone, without `ffdl run`.
examples/nlc/README.md names the source of the queries, and does the same in C++ with sparse
gradients.
"""

import argparse
import json
import os
import pathlib
import sys
import zlib

import torch
from torch.nn import functional

import ffdl.torch

ROWS = 1 << 14  # of the embedding table; a hash maps words to rows


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True,
                        help='queries: {"train": [[text, label], ...], "test": [...]}')
    parser.add_argument("--name", default=None, help="of the parameter server [the job's]")
    parser.add_argument("--epochs", type=int, default=8, help="[%(default)s]")
    parser.add_argument("--batch", type=int, default=16, help="queries of a step [%(default)s]")
    parser.add_argument("--width", type=int, default=64, help="of the embedding [%(default)s]")
    parser.add_argument("--learning-rate", type=float, default=1e-2, help="[%(default)s]")
    return parser.parse_args()


def rows_of(text):
    """Returns the rows of its words, and of its pairs of adjacent words."""
    words = text.lower().split() or [""]
    pairs = [f"{a} {b}" for a, b in zip(words, words[1:], strict=False)]
    return torch.tensor([zlib.crc32(part.encode()) % ROWS for part in words + pairs])


def read_queries(path):
    data = json.loads(path.read_text())
    number_of = {label: i for i, label in enumerate(sorted({l for _, l in data["train"]}))}
    sets = [[(rows_of(text), number_of[label]) for text, label in data[name]]
            for name in ("train", "test")]
    return *sets, len(number_of)


def batch_of(samples):
    queries, labels = zip(*samples, strict=True)
    return queries, torch.tensor(labels)


class Classifier(torch.nn.Module):
    def __init__(self, width, labels):
        super().__init__()
        self.embedding = torch.nn.EmbeddingBag(ROWS, width, mode="mean")
        self.head = torch.nn.Linear(width, labels)

    def forward(self, queries):
        begins = torch.tensor([0, *(len(rows) for rows in queries[:-1])]).cumsum(0)
        hidden = self.embedding(torch.cat(queries), begins)
        return self.head(functional.dropout(hidden, 0.3, self.training))


@torch.no_grad()
def right_of(model, queries, labels):
    model.eval()
    return (model(queries).argmax(dim=1) == labels).float().mean().item()


def main():
    arguments = parse_arguments()
    environment = ffdl.job_environment()
    name = arguments.name or (environment.job if environment else f"queries-{os.getpid()}")
    torch.set_num_threads(1)
    train, test, kinds = read_queries(arguments.data)
    model = Classifier(arguments.width, kinds)
    partition_samples = 4 * arguments.batch  # assigned to a learner at a time
    opt = ffdl.torch.ParameterServerOptimizer(
        torch.optim.Adam(model.parameters(), arguments.learning_rate), name,
        partitions=-(-len(train) // partition_samples))
    loader = ffdl.data.ElasticLoader(
        train, batch_samples=arguments.batch, epochs=arguments.epochs, collate_fn=batch_of,
        partition_samples=partition_samples, order=ffdl.SampleOrder.ON_DEMAND, learner=opt.learner)
    serves = opt.server is not None
    print(f"{'serves and ' if serves else ''}learns, {loader.ledger.committed} queries into epoch "
          f"{loader.ledger.epoch}", flush=True)
    for queries, labels in opt.batches(loader):
        opt.zero_grad()
        functional.cross_entropy(model(queries), labels).backward()
        opt.step()
    opt.close()
    right = right_of(model, *batch_of(test))
    print(f"{right:.1%} of the test queries, with {opt.version} gradients in the weights")


if __name__ == "__main__":
    sys.exit(main())
