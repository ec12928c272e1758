"""Batches that one process reads and others use."""

import gc
import multiprocessing
import os
import signal

import numpy as np
import pytest
from test_buffers import FakeTensor, Tensor

import ffdl


@pytest.fixture
def numbers(tmp_path):
    """A data set of rows of three floats."""
    path = tmp_path / "rows.npy"
    np.save(path, np.arange(300, dtype=np.float32).reshape(100, 3))
    return ffdl.open_npy([str(path)])


def test_arrays_are_views_that_keep_their_batch(numbers):
    ring = ffdl.BatchRing.create(numbers.format, slots=2, slot_bytes=1 << 16)
    consumer = ffdl.BatchConsumer.attach(ring.place)
    assert consumer.format.shape == [3]
    ring.put(numbers.read([7, 3]), indices=[7, 3], ranges=[(0, 5, 7)])
    ring.put(numbers.read([1]), indices=np.array([1]))
    batch = consumer.next()
    rows = batch.samples
    np.testing.assert_array_equal(rows, [[21, 22, 23], [9, 10, 11]])
    assert batch.number == 0 and batch.skipped == 0
    assert batch.indices.tolist() == [7, 3]
    used, = batch.ranges
    assert (used.partition, used.begin, used.end) == (0, 5, 7)
    with pytest.raises(ValueError, match="read-only"):
        rows[0, 0] = 1
    part = rows[1:]
    del batch, rows
    gc.collect()
    with pytest.raises(ffdl.Timeout, match="had not released a batch"):  # `part` is in use
        ring.put(numbers.read([2]), timeout_s=0)
    np.testing.assert_array_equal(part, [[9, 10, 11]])
    del part
    gc.collect()
    ring.put(numbers.read([2]))
    ring.finish()
    assert [consumer.next().samples.tolist() for _ in range(2)] == [[[3, 4, 5]], [[6, 7, 8]]]
    assert consumer.next() is None
    ring.wait_used()
    assert ring.stats.batches == 3 and ring.stats.abandoned == 0


def test_samples_of_different_sizes_and_what_is_left_out():
    ring = ffdl.BatchRing.create(slots=1, slot_bytes=1000)
    consumer = ffdl.BatchConsumer.attach(ring.place)
    ring.put([b"one", None, b"", np.arange(3, dtype=np.uint8)])
    batch = consumer.next()
    assert [bytes(one) for one in batch.samples] == [b"one", b"", b"\0\1\2"]
    assert batch.skipped == 1
    del batch
    with pytest.raises(ffdl.InvalidArgument, match="slot_bytes"):
        ring.put([bytes(1000)])
    for wrong, complaint in (
            (["text"], "a str; give"), (b"one", "give a list of samples"),
            ([np.zeros(4)[::2]], "not C-contiguous; give a C-contiguous"),
            ([Tensor(np.zeros((2, 2)).T)], "not C-contiguous; give a contiguous"),
            ([FakeTensor(np.zeros(2), device_type=2)], "memory of GPU 0")):
        with pytest.raises(ffdl.InvalidArgument, match=f"array 'samples': .*{complaint}"):
            ring.put(wrong)
    with pytest.raises(ffdl.Timeout, match="take batch 1"):
        consumer.next(timeout_s=0)
    del ring
    with pytest.raises(ffdl.PeerLost, match="ended it without finish|is gone"):
        consumer.next()
    with pytest.raises(ffdl.InvalidArgument, match="place"):
        ffdl.BatchConsumer.attach("nowhere")


def test_whatever_is_an_array_is_put():
    ring = ffdl.BatchRing.create(slots=1, slot_bytes=1000)
    consumer = ffdl.BatchConsumer.attach(ring.place)
    rows = np.arange(6, dtype=np.uint16).reshape(2, 3)
    numbers = np.array([5, 9])
    for samples, indices in (
            (rows, numbers), (Tensor(rows), Tensor(numbers)), (memoryview(rows), [5, 9]),
            ([Tensor(rows[0]), memoryview(rows[1])], (5, 9)), (rows, numbers.astype(np.int8))):
        ring.put(samples, indices=indices)
        batch = consumer.next()
        assert [bytes(one) for one in batch.samples] == [row.tobytes() for row in rows]
        assert batch.indices.tolist() == [5, 9]
        del batch
    reals = numbers.astype(np.float32)
    for wrong in (["five"], 5, reals, Tensor(reals)):
        with pytest.raises(ffdl.InvalidArgument, match="array 'indices': .* an array of int64"):
            ring.put(rows, indices=wrong)


def test_samples_of_another_size_are_refused(numbers):
    ring = ffdl.BatchRing.create(numbers.format, slot_bytes=1 << 12)
    with pytest.raises(ffdl.InvalidArgument, match="a sample of 8 bytes"):
        ring.put(np.zeros((2, 2), np.float32))


def add_up(place, told):
    """A process that uses batches until there are no more."""
    consumer = ffdl.BatchConsumer.attach(place)
    total = 0.0
    while (batch := consumer.next()) is not None:
        total += float(batch.samples.sum())
    told.put(total)


def take_one_and_die(place):
    consumer = ffdl.BatchConsumer.attach(place)
    held = consumer.next()
    assert held.number == 0
    os.kill(os.getpid(), signal.SIGKILL)


def test_processes_use_what_is_read_once(numbers):
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    ring = ffdl.BatchRing.create(numbers.format, slots=3, slot_bytes=1 << 12, consumers=3)
    processes = [context.Process(target=add_up, args=(ring.place, told)) for _ in range(2)]
    victim = context.Process(target=take_one_and_die, args=(ring.place,))
    for process in (*processes, victim):
        process.start()
    for begin in range(0, 100, 10):
        ring.put(numbers.read(range(begin, begin + 10)), timeout_s=60)
    with pytest.raises(ffdl.PeerLost, match="a consumer ended before it had used"):
        ring.wait_used(timeout_s=60)
    ring.finish()
    assert [told.get(timeout=60) for _ in processes] == [float(np.arange(300).sum())] * 2
    for process in (*processes, victim):
        process.join()
    assert victim.exitcode == -signal.SIGKILL
    assert ring.stats.abandoned >= 1
