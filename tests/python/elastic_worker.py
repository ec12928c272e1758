"""A worker of the tests' jobs: trains until the file that it is given is there."""

import json
import pathlib
import signal
import sys
import zlib

import numpy as np

import ffdl

SAMPLES, PARTITION = 120, 12


def show(**record):
    print(json.dumps(record) + "\n", end="")  # in one write: others write to the same file


def train(end_file):
    data = np.random.default_rng(1).normal(size=(SAMPLES, 50))
    weights, momentum, ends = np.zeros(50), np.zeros(50), np.zeros(1, np.int64)
    gradient, wants_end = np.zeros(50), np.zeros(1)

    def apply():
        momentum[:] = 0.9 * momentum + gradient
        weights[:] -= 0.01 * momentum
        ends[:] += wants_end > 0

    def on_stable(committed):
        parts = [[r.partition, r.begin, r.end] for _, r in committed.parts]
        show(stable=committed.step, parts=parts)

    ledger = ffdl.make_session_ledger(
        samples=SAMPLES, partition_samples=PARTITION, epochs=0, on_stable=on_stable)
    session = ffdl.Session.open(
        state=[weights, momentum, ends], gradients=[gradient, wants_end], apply=apply,
        participants=[ledger], verify_state=True, lease_s=5.0)
    signal.signal(signal.SIGTERM, lambda *_: session.ask_to_leave())
    while not ends[0]:
        mine = ledger.sample_indices(ledger.take(3))
        if len(mine):
            gradient[:] = (weights - data[mine]).mean(axis=0)
            wants_end[:] = end_file.exists()
        result = session.end_step(ledger.taken)
        if result == ffdl.StepResult.RETRY_STEP:
            continue
        show(step=session.step, size=session.world.size, state=zlib.crc32(weights.tobytes()),
             result=result.name)
        if result == ffdl.StepResult.LEFT:
            return
    session.finish()


if __name__ == "__main__":
    train(pathlib.Path(sys.argv[1]))
