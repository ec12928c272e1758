#!/usr/bin/env python3
"""Learns handwritten digits in PyTorch with workers that may join, leave and die.

    ffdl run --workers 1:2 --job digits examples/07_elastic_digits_torch.py

starts two. While they train, `ffdl scale digits 1` takes one away and `ffdl scale digits 2` brings
it back. One that is killed starts again by itself. A convolutional network with batch norm and
dropout, in an ordinary loop: three of its lines are ffdl's. The images are part of scikit-learn.
"""

import argparse
import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

import ffdl
import ffdl.torch

TEST_IMAGES = 297


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10, help="[%(default)s]")
    parser.add_argument("--batch", type=int, default=50,
                        help="images of one step, over all workers [%(default)s]")
    parser.add_argument("--learning-rate", type=float, default=0.01, help="[%(default)s]")
    return parser.parse_args()


def load_images():
    digits = load_digits()
    images = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return torch.utils.data.TensorDataset(images[order], labels[order])


def make_model():
    torch.manual_seed(0)  # every worker begins with the same weights
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(32 * 2 * 2, 10))


@torch.no_grad()
def accuracy(model, images, labels):
    model.eval()
    return (model(images).argmax(dim=1) == labels).float().mean().item()


def main():
    arguments = parse_arguments()
    digits = load_images()
    training = torch.utils.data.Subset(digits, range(TEST_IMAGES, len(digits)))
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), arguments.learning_rate)
    loader = ffdl.data.ElasticLoader(
        training, batch_samples=arguments.batch, epochs=arguments.epochs)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer, arguments.epochs * len(loader))
    trainer = ffdl.torch.elastic(model, optimizer, loader, scheduler=scheduler)
    for images, labels in trainer.batches():
        functional.cross_entropy(model(images), labels).backward()
        if trainer.step() == ffdl.StepResult.WORLD_CHANGED:
            world = trainer.session.world
            print(f"step {trainer.session.step}: one of {world.size} now", flush=True)
    if trainer.left:
        print(f"left after step {trainer.session.step}")
        return
    right = accuracy(model, *digits[:TEST_IMAGES])
    print(f"step {trainer.session.step}: {right:.1%} of the test images")


if __name__ == "__main__":
    sys.exit(main())
