"""A learner of the tests' parameter servers in PyTorch: takes one share of the digits.

    server_torch_worker.py NAME SHARE SHARES PASSES END_FILE

It ends after so many passes or more, once the file is there.
"""

import pathlib
import sys

import torch
from elastic_worker import show
from torch.nn import functional
from torch_digits import make_model, read_digits, right_of

import ffdl.torch


def train(name, share, shares, passes, end_file):
    torch.set_num_threads(1)
    images, labels, test_images, test_labels = read_digits()
    images, labels = images[share::shares], labels[share::shares]
    model = make_model()
    opt = ffdl.torch.ParameterServerOptimizer(
        torch.optim.Adam(model.parameters(), lr=0.002), name, slot=share, learners_max=4)
    begin = opt.committed(share)
    while begin % len(images) > 0 or begin < passes * len(images) or not end_file.exists():
        end = min(begin + 16, (begin // len(images) + 1) * len(images))
        mine = torch.arange(begin, end) % len(images)
        opt.zero_grad()
        functional.cross_entropy(model(images[mine]), labels[mine]).backward()
        opt.step(samples=(share, begin, end))
        begin = end
        if begin % len(images) == 0:
            show(passes=begin // len(images), serves=opt.server is not None)
    server = opt.server
    opt.close()
    if server is not None:
        stats = server.stats()
        show(accuracy=right_of(model, test_images, test_labels), lives=stats.epoch,
             partitions=[[p.committed, p.samples, p.repeated, p.missing]
                         for p in stats.partitions[:shares]])


if __name__ == "__main__":
    train(sys.argv[1], *map(int, sys.argv[2:5]), pathlib.Path(sys.argv[5]))
