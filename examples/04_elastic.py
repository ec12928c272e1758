#!/usr/bin/env python3
"""Learns handwritten digits with workers that may join, leave and die while they train.

    ffdl run --workers 1:2 --job digits examples/04_elastic.py

starts two. While they train, `ffdl scale digits 1` takes one away and `ffdl scale digits 2` brings
it back. One that is killed starts again by itself. Every image is still used once per epoch, and
all workers have the same weights after every step. It computes with NumPy alone; the images are
part of scikit-learn.
"""

import argparse
import signal
import sys
import zlib

import numpy as np
from sklearn.datasets import load_digits

import ffdl

TEST_IMAGES = 297


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=30, help="[%(default)s]")
    parser.add_argument("--batch", type=int, default=50,
                        help="images of one step, over all workers [%(default)s]")
    parser.add_argument("--learning-rate", type=float, default=0.1, help="[%(default)s]")
    return parser.parse_args()


def load_images():
    digits = load_digits()
    images = np.hstack([digits.data / 16, np.ones((len(digits.data), 1))])  # the last: a constant
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = images[order], digits.target[order]
    return images[TEST_IMAGES:], labels[TEST_IMAGES:], images[:TEST_IMAGES], labels[:TEST_IMAGES]


def compute_gradient(weights, images, labels):
    """Returns the gradient of the mean cross-entropy of a linear model."""
    scores = images @ weights
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(labels)), labels] -= 1
    return images.T @ chances / len(labels)


def main():
    arguments = parse_arguments()
    images, labels, test_images, test_labels = load_images()
    weights = np.zeros((images.shape[1], 10))
    momentum = np.zeros_like(weights)
    gradient = np.zeros_like(weights)

    def apply():
        momentum[:] = 0.9 * momentum + gradient
        weights[:] -= arguments.learning_rate * momentum

    loader = ffdl.data.ElasticLoader(
        (images, labels), batch_samples=arguments.batch, epochs=arguments.epochs)
    session = ffdl.Session.open(state=[weights, momentum], gradients=[gradient], apply=apply,
                                participants=[loader.ledger])
    signal.signal(signal.SIGTERM, lambda *_: session.ask_to_leave())
    print(f"begins at step {session.step}, one of {session.world.size}", flush=True)
    for batch in loader.batches(session):
        gradient[:] = compute_gradient(weights, *batch)
        result = session.end_step()
        if result == ffdl.StepResult.WORLD_CHANGED:
            print(f"step {session.step}: one of {session.world.size} now", flush=True)
        if result == ffdl.StepResult.LEFT:
            break
    if not loader.is_done:
        print(f"left after step {session.step}")
        return
    right = np.mean((test_images @ weights).argmax(axis=1) == test_labels)
    print(f"step {session.step}: {right:.1%} of the test images, "
          f"weights {zlib.crc32(weights.tobytes()):08x}")


if __name__ == "__main__":
    sys.exit(main())
