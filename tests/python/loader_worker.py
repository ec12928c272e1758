"""A worker of the tests' jobs whose samples come from a loader with a process of its own."""

import pathlib
import signal
import sys
import zlib

import numpy as np
from elastic_worker import PARTITION, SAMPLES, show

import ffdl


class Numbers:
    def __len__(self):
        return SAMPLES

    def __getitem__(self, number):
        return number, np.full(50, number, np.float64)


def train(end_file):
    weights, ends = np.zeros(50), np.zeros(1, np.int64)
    gradient, wants_end = np.zeros(50), np.zeros(1)

    def apply():
        weights[:] -= 0.01 * gradient
        ends[:] += wants_end > 0

    def on_stable(committed):
        parts = [[r.partition, r.begin, r.end] for _, r in committed.parts]
        show(stable=committed.step, parts=parts)

    loader = ffdl.data.ElasticLoader(
        Numbers(), order=ffdl.SampleOrder.ON_DEMAND, partition_samples=PARTITION, batch_samples=3,
        epochs=0, num_workers=1, on_stable=on_stable)
    session = ffdl.Session.open(
        state=[weights, ends], gradients=[gradient, wants_end], apply=apply,
        participants=[loader.ledger], verify_state=True, lease_s=5.0)
    signal.signal(signal.SIGTERM, lambda *_: session.ask_to_leave())
    while not ends[0]:
        batch = loader.next()
        if batch is not None:
            numbers, rows = batch
            # What came is what the ledger counts, and not what was read ahead in vain.
            due = loader.ledger.sample_indices(loader.ledger.take(3))
            assert numbers.tolist() == due.tolist() and (rows[:, 7] == due).all()
            gradient[:] = weights - rows.mean(axis=0)
            wants_end[:] = end_file.exists()
        result = session.end_step(loader.taken)
        if result == ffdl.StepResult.RETRY_STEP:
            continue
        show(step=session.step, size=session.world.size, state=zlib.crc32(weights.tobytes()),
             result=result.name)
        if result == ffdl.StepResult.LEFT:
            return
    session.finish()


if __name__ == "__main__":
    train(pathlib.Path(sys.argv[1]))
