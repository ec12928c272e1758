"""Collectives beside compute."""

import gc
import threading
import weakref

import numpy as np
import pytest
from ranks import SOON_S, on_threads, shared_ranks

import ffdl


def on_queues(communicators, body, **options):
    return on_threads(communicators, lambda c: body(ffdl.OperationQueue(c, **options)))


class Array(np.ndarray):
    """One that can be seen to go."""


def test_several_are_under_way_and_are_waited_for_in_any_order():
    def body(queue):
        sums = [np.full(1000 * i, i, np.int32) for i in range(20)]
        gathered = np.zeros(2, np.int8)
        tickets = [queue.all_reduce(one) for one in sums]
        last = queue.all_gather(np.ones(1, np.int8), gathered)
        last.wait(SOON_S)
        assert last.done() and all(ticket.done() for ticket in tickets)
        for ticket in reversed(tickets):
            ticket.wait()
            ticket.wait()  # each time alike
        for i, one in enumerate(sums):
            np.testing.assert_array_equal(one, 2 * i)
        return gathered.sum()

    assert on_queues(shared_ranks(2), body) == [2, 2]


def test_every_collective_can_be_started():
    def body(queue):
        ones, out = np.ones(2), np.zeros(4)
        half = np.zeros(1)
        for ticket in (
            queue.barrier(),
            queue.all_reduce(ones, np.zeros(2)),
            queue.reduce_scatter(ones, half),
            queue.reduce(ones, np.zeros(2), root=0),
            queue.all_gather(ones, out),
            queue.gather(ones, np.zeros(4), root=1),
            queue.broadcast(np.zeros(3), root=0),
            queue.scatter(ones, np.zeros(1), root=0),
            queue.all_to_all(ones, np.zeros(2)),
        ):
            ticket.wait(SOON_S)
        return half[0], out.sum()

    assert on_queues(shared_ranks(2), body) == [(2, 4), (2, 4)]


def test_arrays_stay_until_their_operation_has_ended():
    first, second = shared_ranks(2)
    queue = ffdl.OperationQueue(first)
    given = np.ones(5000).view(Array)
    seen = weakref.ref(given)
    ticket = queue.all_reduce(given, np.zeros(5000))
    del given
    gc.collect()
    assert seen() is not None and not ticket.done()
    out = np.zeros(5000)
    second.all_reduce(np.ones(5000), out)
    ticket.wait(SOON_S)
    np.testing.assert_array_equal(out, 2)
    gc.collect()
    assert seen() is None


def test_a_dropped_ticket_is_forgotten_when_its_operation_has_ended():
    def body(queue):
        for _ in range(50):
            given = np.ones(10).view(Array)
            seen = weakref.ref(given)
            queue.all_reduce(given)
            del given
            queue.barrier().wait(SOON_S)
        queue.barrier().wait(SOON_S)
        gc.collect()
        return seen()

    assert on_queues(shared_ranks(2), body, operations_max=4) == [None, None]


def test_a_queue_is_bounded():
    first, second = shared_ranks(2)
    queue = ffdl.OperationQueue(first, operations_max=2)
    tickets = [queue.barrier(), queue.barrier()]
    with pytest.raises(ffdl.Exhausted, match="2 operations were started"):
        queue.barrier()
    second.barrier()
    second.barrier()
    for ticket in tickets:
        ticket.wait(SOON_S)


def test_a_wait_that_is_too_short_ends_nothing():
    first, second = shared_ranks(2)
    queue = ffdl.OperationQueue(first)
    ticket = queue.barrier(timeout_s=SOON_S)
    with pytest.raises(ffdl.Timeout, match="has not ended, and continues"):
        ticket.wait(0.05)
    second.barrier()
    ticket.wait(SOON_S)


def test_a_failure_comes_from_wait():
    first, second = shared_ranks(2)
    queue = ffdl.OperationQueue(first)
    late, later = queue.barrier(timeout_s=0.05), queue.barrier()
    for ticket in (late, late, later):
        with pytest.raises(ffdl.Timeout, match="rank 1 'm1' had not arrived"):
            ticket.wait()
    with pytest.raises(ffdl.InvalidArgument, match="array 'inout'"):
        queue.all_reduce("wrong")
    assert second.rank == 1  # it is there, and does not come


def test_a_queue_has_its_communicator_for_itself():
    (communicator,) = shared_ranks(1)
    queue = ffdl.OperationQueue(communicator)
    for call in (communicator.barrier, lambda: ffdl.OperationQueue(communicator)):
        with pytest.raises(ffdl.InvalidArgument, match="OperationQueue uses the object"):
            call()
    del queue
    communicator.barrier()
    with pytest.raises(TypeError):
        ffdl.OperationQueue(None)


def test_a_queue_that_goes_ends_what_is_under_way():
    first, second = shared_ranks(2)
    queue = ffdl.OperationQueue(first)
    queue.barrier(timeout_s=float("inf"))
    del queue
    with pytest.raises(ffdl.Cancelled, match="queue of operations was closed"):
        first.barrier()
    with pytest.raises(ffdl.PeerLost):
        second.barrier()  # which first had come to
        second.barrier()


def test_a_ticket_keeps_its_queue_and_its_communicator():
    first, second = shared_ranks(2)
    ticket = ffdl.OperationQueue(first).barrier(timeout_s=SOON_S)
    del first
    gc.collect()
    waiting = threading.Thread(target=ticket.wait)
    waiting.start()
    second.barrier()
    waiting.join(SOON_S)
    assert not waiting.is_alive() and ticket.done()
