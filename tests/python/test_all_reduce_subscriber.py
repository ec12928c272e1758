"""Who listens to the sums of a running world."""

import threading

import numpy as np
import pytest
from ranks import SOON_S, local_ranks, new_world, on_threads

import ffdl


def open_ranks(ranks, store, **options):
    """Communicators over shared memory for threads of this process, open to subscribers."""

    def connect(rank):
        communicator = ffdl.connect_communicator(new_world(rank, ranks), store, SOON_S)
        communicator.open_to_subscribers(store, SOON_S, **options)
        return communicator

    return on_threads(range(ranks), connect)


def add_up(communicators, number, elements=1000):
    def add(communicator):
        communicator.all_reduce(np.full(elements, number, np.float32), timeout_s=SOON_S)

    on_threads(communicators, add)


def test_it_hears_every_sum_that_begins_after_it_came():
    store = ffdl.open_store("mem://")
    communicators = open_ranks(2, store)
    add_up(communicators, 1)
    listener = ffdl.AllReduceSubscriber.attach(new_world(0, 2), store, SOON_S)
    out = [np.zeros(300, np.float32), np.zeros((7, 100), np.float32)]
    for number in range(1, 5):
        add_up(communicators, number)
        assert listener.next(out, SOON_S) == number
        for array in out:
            np.testing.assert_array_equal(array, 2 * number)


def test_it_waits_and_can_be_asked_again():
    store = ffdl.open_store("mem://")
    communicators = open_ranks(2, store)
    listener = ffdl.AllReduceSubscriber.attach(new_world(0, 2), store, SOON_S)
    out = np.zeros(1000, np.float32)
    with pytest.raises(ffdl.Timeout):
        listener.next(out, 0.15)
    adding = threading.Thread(target=add_up, args=(communicators, 3))
    adding.start()
    assert listener.next(out, SOON_S) == 0
    adding.join()
    add_up(communicators, 4)
    with pytest.raises(ffdl.InvalidArgument, match="1000"):
        listener.next(np.zeros(999, np.float32), SOON_S)
    assert listener.next(out, SOON_S) == 1


def test_who_is_slow_loses_its_place():
    store = ffdl.open_store("mem://")
    communicators = open_ranks(2, store, ring_bytes=1 << 16)
    listener = ffdl.AllReduceSubscriber.attach(new_world(0, 2), store, SOON_S)
    for number in range(40):
        add_up(communicators, number)
    with pytest.raises(ffdl.Exhausted, match="attach again"):
        listener.next(np.zeros(1000, np.float32), SOON_S)


def test_it_learns_that_the_members_have_closed():
    store = ffdl.open_store("mem://")
    communicators = open_ranks(2, store)
    listener = ffdl.AllReduceSubscriber.attach(new_world(0, 2), store, SOON_S)
    for communicator in communicators:
        communicator.close_to_subscribers()
    with pytest.raises(ffdl.WorldChanged):
        listener.next(np.zeros(1000, np.float32), SOON_S)
    add_up(communicators, 1)


def test_nobody_has_opened():
    with pytest.raises(ffdl.Timeout, match="have not opened"):
        ffdl.AllReduceSubscriber.attach(new_world(0, 2), ffdl.open_store("mem://"), 0.15)


def test_a_place_where_nothing_is_any_more_is_waited_for():
    store = ffdl.open_store("mem://")
    communicators = open_ranks(2, store)
    (told,) = store.list("listen/")
    for communicator in communicators:
        communicator.close_to_subscribers()
    store.put(told.key, told.value)
    opening = threading.Timer(
        0.3, on_threads, (communicators, lambda c: c.open_to_subscribers(store, SOON_S))
    )
    opening.start()
    listener = ffdl.AllReduceSubscriber.attach(new_world(0, 2), store, SOON_S)
    opening.join()
    add_up(communicators, 5)
    assert listener.next(np.zeros(1000, np.float32), SOON_S) == 0


def test_a_back_end_that_has_none_says_so():
    def body(communicator):
        with pytest.raises(ffdl.Unimplemented):
            communicator.open_to_subscribers(ffdl.open_store("mem://"))
        communicator.close_to_subscribers()
        communicator.barrier()

    on_threads(local_ranks(2), body)
