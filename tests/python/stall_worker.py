"""A worker of test_stall.py: trains until the file that it is given is there."""

import json
import pathlib
import sys
import time
import zlib

import numpy as np

import ffdl

SAMPLES, PARTITION = 120, 12
LEASE_S = 0.5


def show(**record):
    print(json.dumps(record) + "\n", end="")  # in one write: others write to the same file


def train(end_file, log_file, fence_after_s):
    data = np.random.default_rng(1).normal(size=(SAMPLES, 50))
    weights, ends = np.zeros(50), np.zeros(1, np.int64)
    gradient, wants_end = np.zeros(50), np.zeros(1)

    def apply():
        weights[:] -= 0.01 * gradient
        ends[:] += wants_end > 0

    def begin_anew():
        show(anew=True)
        weights[:] = 0
        ends[:] = 0

    options = {"samples": SAMPLES, "partition_samples": PARTITION, "epochs": 0}
    log = ffdl.CommitLog.open(str(log_file), **options)
    ledger = ffdl.make_session_ledger(**options, on_stable=log.write)
    session = ffdl.Session.open(
        state=[weights, ends], gradients=[gradient, wants_end], apply=apply,
        begin_anew=begin_anew, participants=[ledger], verify_state=True, lease_s=LEASE_S,
        fence_after_s=fence_after_s)
    show(open=session.step)
    while not ends[0]:
        mine = ledger.sample_indices(ledger.take(3))
        if len(mine):
            gradient[:] = (weights - data[mine]).mean(axis=0)
            wants_end[:] = end_file.exists()
        result = session.end_step(ledger.taken)
        show(step=session.step, size=session.world.size, result=result.name)
        time.sleep(0.01)
    session.finish()
    show(last=session.step, state=zlib.crc32(weights.tobytes()))


if __name__ == "__main__":
    train(pathlib.Path(sys.argv[1]), pathlib.Path(f"{sys.argv[2]}.{time.time_ns()}.commits"),
          float(sys.argv[3]))
