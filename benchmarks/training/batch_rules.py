#!/usr/bin/env python3
"""Measures the accuracy when the batch grows to eight times its size during training.

    benchmarks/training/batch_rules.py [--seeds 5] [--epochs 40] [--json]

Handwritten digits, a network of one hidden layer, momentum, and a learning rate that falls linearly
to zero. One worker trains with batches of --batch. After each fifth of the training the number of
workers doubles, up to eight. With each rule of step_batch() the batch grows with them; 'kept'
divides it instead. With AdaScale training ends when its steps are worth those of the others. Prints
the accuracy on the test images, over seeds. Workers are threads of this process.
"""

import argparse
import json
import statistics
import sys
import threading

import numpy as np
from sklearn.datasets import load_digits

import ffdl

TEST_IMAGES = 297
HIDDEN = 64
LEARNING_RATE = 0.1
WORKERS_MAX = 8
RULES = {
    "alone": None,
    "kept": ffdl.LearningRateRule.LINEAR,
    "constant": ffdl.LearningRateRule.CONSTANT,
    "square root": ffdl.LearningRateRule.SQUARE_ROOT,
    "linear": ffdl.LearningRateRule.LINEAR,
    "AdaScale": ffdl.LearningRateRule.ADA_SCALE,
}


class Network:
    """Weights and momentum in one array each; tanh, softmax, cross-entropy."""

    def __init__(self, seed):
        random = np.random.default_rng(seed)
        self.sizes = [(65, HIDDEN), (HIDDEN + 1, 10)]
        parts = [random.normal(0, 1 / np.sqrt(rows), (rows, columns)) for rows, columns in self.sizes]
        self.weights = np.concatenate([part.ravel() for part in parts])
        self.momentum = np.zeros_like(self.weights)
        self.gradient = np.zeros_like(self.weights)
        self.progress = np.zeros(1)  # steps of one worker that the training is worth

    def layers(self, flat):
        first = self.sizes[0][0] * self.sizes[0][1]
        return flat[:first].reshape(self.sizes[0]), flat[first:].reshape(self.sizes[1])

    def forward(self, images):
        one, two = self.layers(self.weights)
        hidden = np.tanh(images @ one)
        hidden = np.hstack([hidden, np.ones((len(hidden), 1))])
        return hidden, hidden @ two

    def compute_gradient(self, images, labels):
        hidden, scores = self.forward(images)
        scores -= scores.max(axis=1, keepdims=True)
        error = np.exp(scores)
        error /= error.sum(axis=1, keepdims=True)
        error[np.arange(len(labels)), labels] -= 1
        error /= len(labels)
        one, two = self.layers(self.gradient)
        _, weights = self.layers(self.weights)
        two[:] = hidden.T @ error
        back = (error @ weights[:-1].T) * (1 - hidden[:, :-1] ** 2)
        one[:] = images.T @ back

    def accuracy(self, images, labels):
        return np.mean(self.forward(images)[1].argmax(axis=1) == labels)


class Training:
    """One training with one rule: its workers, which start during the training."""

    def __init__(self, rule, seed, arguments):
        self.name = rule
        self.seed = seed
        self.arguments = arguments
        digits = load_digits()
        images = np.hstack([digits.data / 16, np.ones((len(digits.data), 1))])
        order = np.random.default_rng(0).permutation(len(images))
        self.images, self.labels = images[order], digits.target[order]
        self.steps = arguments.epochs * (len(images) - TEST_IMAGES) / arguments.batch
        self.rule = ffdl.BatchRule(
            samples=arguments.batch,
            workers=1 if rule not in ("alone", "kept") else 0,
            learning_rate=RULES[rule] or ffdl.LearningRateRule.CONSTANT,
        )
        self.store = ffdl.open_store("mem://")
        self.lock = threading.Lock()
        self.workers = []
        self.result = None

    def run(self):
        self.start(1)
        while True:
            with self.lock:
                alive = [worker for worker in self.workers if worker.is_alive()]
            if not alive:
                return self.result
            alive[0].join()

    def start(self, count):
        """Starts workers up to that number; called by the first that finds it is time."""
        with self.lock:
            while len(self.workers) < count:
                worker = threading.Thread(target=self.train, args=(f"w{len(self.workers)}",))
                self.workers.append(worker)
                worker.start()

    def workers_due(self, progress):
        if self.name == "alone":
            return 1
        return min(2 ** int(5 * progress / self.steps), WORKERS_MAX)

    def train(self, id):
        network = Network(self.seed)
        ledger = ffdl.make_session_ledger(
            samples=len(self.images) - TEST_IMAGES, partition_samples=len(self.images) // 40,
            epochs=0, seed=self.seed, shuffle=ffdl.Shuffle.SAMPLES)
        noise = ffdl.GradientNoise.create(gradients=[network.gradient], interval=5)
        batch = None

        def apply():
            left = max(0, 1 - network.progress[0] / self.steps)
            network.momentum *= 0.9
            network.momentum += network.gradient
            network.weights -= (
                LEARNING_RATE * left * batch.learning_rate_factor * network.momentum
            )
            # Without AdaScale a step is worth its samples: all rules use the same number.
            worth = batch.samples / self.rule.samples
            network.progress += batch.progress if self.name == "AdaScale" else worth

        def plan(world):
            nonlocal batch
            batch = ffdl.step_batch(self.rule, world.rank, world.size, noise.noise_scale)

        session = ffdl.Session.open(
            self.store, id=id, state=[network.weights, network.momentum, network.progress],
            gradients=[network.gradient], apply=apply, on_world=plan,
            participants=[ledger, noise], lease_s=10.0, gather_s=0.02)
        while network.progress[0] < self.steps:
            self.start(self.workers_due(network.progress[0]))
            plan(session.world)
            mine = ledger.sample_indices(ledger.take(batch.share)) + TEST_IMAGES
            if len(mine) > 0:
                network.compute_gradient(self.images[mine], self.labels[mine])
            session.end_step(ledger.taken)
        session.finish()
        self.result = {
            "rule": self.name, "seed": self.seed, "steps": session.step,
            "epochs": ledger.epoch, "workers": session.world.size,
            "noise_scale": noise.noise_scale.value,
            "accuracy": network.accuracy(self.images[:TEST_IMAGES], self.labels[:TEST_IMAGES]),
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="[%(default)s]")
    parser.add_argument("--epochs", type=int, default=40, help="[%(default)s]")
    parser.add_argument("--batch", type=int, default=32, help="of one worker [%(default)s]")
    parser.add_argument("--json", action="store_true", help="one record for each training")
    arguments = parser.parse_args()
    base = None
    if not arguments.json:
        print("| rule | steps | epochs | accuracy, mean | least | most | against alone, points |")
        print("|---|---|---|---|---|---|---|")
    for rule in RULES:
        results = []
        for seed in range(arguments.seeds):
            results.append(Training(rule, seed, arguments).run())
            if arguments.json:
                print(json.dumps(results[-1]), flush=True)
        accuracies = [100 * result["accuracy"] for result in results]
        mean = statistics.mean(accuracies)
        base = mean if base is None else base
        if not arguments.json:
            print(f"| {rule} | {statistics.mean(r['steps'] for r in results):.0f} | "
                  f"{statistics.mean(r['epochs'] for r in results):.0f} | {mean:.2f} | "
                  f"{min(accuracies):.2f} | {max(accuracies):.2f} | {mean - base:+.2f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
