#!/usr/bin/env python3
"""Sorts short customer queries by intent, with PyTorch learners around a parameter server.

    ffdl run --workers 2 examples/06_parameter_server_torch.py --data data_full.json

starts two learners. Neither waits for the other, and either may be killed: it starts again where
its share of the queries stood. Alone it works as well, without `ffdl run`.
examples/nlc/README.md says where the queries are, and does the same in C++ with sparse gradients.
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

ROWS = 1 << 14  # of the embedding table; words are found by a hash


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
    """Of its words, and of its pairs of neighbouring words."""
    words = text.lower().split() or [""]
    pairs = [f"{a} {b}" for a, b in zip(words, words[1:], strict=False)]
    return torch.tensor([zlib.crc32(part.encode()) % ROWS for part in words + pairs])


def read_queries(path):
    data = json.loads(path.read_text())
    number_of = {label: i for i, label in enumerate(sorted({l for _, l in data["train"]}))}
    sets = [([rows_of(text) for text, _ in data[name]],
             torch.tensor([number_of[label] for _, label in data[name]]))
            for name in ("train", "test")]
    return *sets, len(number_of)


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
    share, shares = (int(os.environ.get(name, default))
                     for name, default in (("RANK", 0), ("WORLD_SIZE", 1)))
    name = arguments.name or (environment.job if environment else f"queries-{os.getpid()}")
    torch.set_num_threads(1)
    torch.manual_seed(0)  # the order of the queries is the same for all learners
    (queries, labels), test, kinds = read_queries(arguments.data)
    order = torch.randperm(len(queries))[share::shares]
    queries, labels = [queries[i] for i in order], labels[order]
    model = Classifier(arguments.width, kinds)
    opt = ffdl.torch.ParameterServerOptimizer(
        torch.optim.Adam(model.parameters(), arguments.learning_rate), name, slot=share)
    serves = opt.server is not None
    begin = opt.committed(share)  # 0, or where a former life of this learner ended
    print(f"{'serves and ' if serves else ''}learns from query {begin} on", flush=True)
    while begin < arguments.epochs * len(queries):
        end = min(begin + arguments.batch, (begin // len(queries) + 1) * len(queries))
        torch.manual_seed(begin)  # what is dropped out does not depend on former lives
        at = begin % len(queries)
        opt.zero_grad()
        scores = model(queries[at : at + end - begin])
        functional.cross_entropy(scores, labels[at : at + end - begin]).backward()
        opt.step(samples=(share, begin, end))
        begin = end
    opt.close()
    print(f"{right_of(model, *test):.1%} of the test queries, with {opt.version} gradients in "
          "the weights")


if __name__ == "__main__":
    sys.exit(main())
