"""Every call that waits lets other threads run meanwhile, and ends on Ctrl-C.

Each wait here is for something that never comes.
"""

import ast
import multiprocessing
import pathlib
import threading

import numpy as np
import pytest
from interrupts import ENOUGH_S, expect_ctrl_c_to_end
from ranks import SOON_S, local_ranks, new_world, on_threads, shared_ranks

import ffdl

# --- what waits: each entry makes all that is needed, and returns the call ---


def one_that_bulk_holds_up():
    """A learner whose mini-batch nobody folds: its server has not been started."""
    server = ffdl.ParameterServer.create(parameters=10, synchrony=ffdl.Synchrony.BULK)
    learner = ffdl.Learner.attach(server)
    learner.push(np.zeros(10, np.float32), (0, 0, 1))
    return learner


def one_that_averages():
    server = ffdl.ParameterServer.create(
        parameters=10, rule=ffdl.UpdateRuleOptions("average"), synchrony=ffdl.Synchrony.BULK)
    learner = ffdl.AveragingLearner.attach(server, period=1)
    learner.begin_mini_batch()
    learner.step(np.zeros(10, np.float32), (0, 0, 1))
    return learner


def change_of_a_store():
    store = ffdl.open_store("mem://")
    after = store.put("key", "value")
    return lambda: store.wait_change("", after, ENOUGH_S)


def wait_of_a_push_ledger():
    server = ffdl.ParameterServer.create(parameters=10, partitions=1)
    server.start()
    data = {"samples": 8, "partition_samples": 8}
    holder = ffdl.make_push_ledger(ffdl.Learner.attach(server), **data)
    holder.take()
    ledger = ffdl.make_push_ledger(ffdl.Learner.attach(server), **data)
    assert ledger.take(1) == []
    return lambda: (ledger.wait(ENOUGH_S), holder)


def wait_of_a_store_ledger():
    store = ffdl.open_store("mem://")
    holder, ledger = (
        ffdl.make_store_ledger(store, id=id, samples=8, partition_samples=8, lease_s=60.0)
        for id in ("holder", "waiting"))
    holder.take()
    assert ledger.take(1) == []
    return lambda: (ledger.wait(ENOUGH_S), holder)


def of_a_pair(call, make=shared_ranks):
    """An operation of rank 0, to which rank 1 does not come."""

    def prepare():
        alone, other = make(2)
        return lambda: (call(alone), other)

    return prepare


def ticket():
    first, other = shared_ranks(2)
    started = ffdl.OperationQueue(first).barrier(ENOUGH_S)
    return lambda: (started.wait(ENOUGH_S), other)


def finish_of_micro_batches():
    gradient = np.zeros(4)
    pair = shared_ranks(2)

    def make(communicator):
        return ffdl.MicroBatchSum(communicator, gradient, shares=[1, 0], timeout_s=SOON_S)

    first, other = on_threads(pair, make)
    first.add(gradient)
    return lambda: (first.finish(gradient, ENOUGH_S), other)


def sum_of_a_subscriber():
    store = ffdl.open_store("mem://")
    (alone,) = shared_ranks(1)
    alone.open_to_subscribers(store)
    listener = ffdl.AllReduceSubscriber.attach(alone.world, store)
    return lambda: (listener.next(np.zeros(3), ENOUGH_S), alone)


def ring():
    return ffdl.BatchRing.create(slots=1, slot_bytes=4096)


def use_of_a_ring():
    made = ring()
    consumer = ffdl.BatchConsumer.attach(made.place)
    made.put([b"sample"])
    return lambda: (made.wait_used(ENOUGH_S), consumer)


def next_of_a_consumer():
    made = ring()
    consumer = ffdl.BatchConsumer.attach(made.place)
    return lambda: (consumer.next(ENOUGH_S), made)


def open_session(store, id, **options):
    return ffdl.Session.open(
        store, id=id, state=np.zeros(3), gradients=np.zeros(3), apply=lambda: None, lease_s=15.0,
        gather_s=0.05, **({"min_workers": 2} | options))


def of_a_session(call):
    """A call of a member for which another one does not make its own."""

    def prepare():
        store, sessions = ffdl.open_store("mem://"), []
        is_open, over = threading.Event(), threading.Event()

        def idle():
            sessions.append(open_session(store, "b"))
            is_open.set()
            assert over.wait(2 * SOON_S)
            sessions.clear()

        other = threading.Thread(target=idle)
        other.start()
        session = open_session(store, "a")
        assert is_open.wait(SOON_S)

        def wait():
            try:
                call(session)
            finally:
                over.set()
                other.join()

        return wait

    return prepare


class Never:
    """A data set whose samples never come."""

    def __init__(self):
        self._event = multiprocessing.get_context("fork").Event()

    def __len__(self):
        return 10

    def __getitem__(self, number):
        self._event.wait(2 * SOON_S)
        return number


def batch_of_a_loader():
    loader = ffdl.data.ElasticLoader(
        Never(), batch_samples=2, num_workers=1, multiprocessing_context="fork")

    session = open_session(
        ffdl.open_store("mem://"), "a", min_workers=1, participants=[loader.ledger])

    def wait():
        with loader:
            return loader.next(), session

    return wait


VALUES = np.zeros(4)
BOTH = np.zeros(8)
WAITS = {
    "ParameterServerView.open": lambda: lambda: ffdl.ParameterServerView.open("none", ENOUGH_S),
    "ParameterServer.serve": lambda: ffdl.ParameterServer.create(parameters=1).serve,
    "Learner.attach": lambda: lambda: ffdl.Learner.attach("none", ENOUGH_S),
    "Learner.begin_mini_batch":
        lambda: lambda learner=one_that_bulk_holds_up(): learner.begin_mini_batch(ENOUGH_S),
    "Learner.gradient_slot":
        lambda: lambda learner=one_that_bulk_holds_up(): learner.gradient_slot(ENOUGH_S),
    "Learner.flush": lambda: lambda learner=one_that_bulk_holds_up(): learner.flush(ENOUGH_S),
    "Learner.detach": lambda: lambda learner=one_that_bulk_holds_up(): learner.detach(ENOUGH_S),
    "AveragingLearner.attach": lambda: lambda: ffdl.AveragingLearner.attach("none", ENOUGH_S),
    "AveragingLearner.begin_mini_batch":
        lambda: lambda learner=one_that_averages(): [
            learner.begin_mini_batch(ENOUGH_S) for _ in range(2)],
    "AveragingLearner.flush": lambda: lambda one=one_that_averages(): one.flush(ENOUGH_S),
    "AveragingLearner.detach": lambda: lambda one=one_that_averages(): one.detach(ENOUGH_S),
    "Store.wait_change": change_of_a_store,
    "SampleLedger.wait": wait_of_a_push_ledger,
    "connect_communicator": lambda: lambda: ffdl.connect_communicator(
        new_world(0, 2), ffdl.open_store("mem://"), ENOUGH_S),
    "Communicator.all_reduce": of_a_pair(lambda c: c.all_reduce(VALUES, timeout_s=ENOUGH_S)),
    "Communicator.reduce_scatter":
        of_a_pair(lambda c: c.reduce_scatter(BOTH, VALUES, timeout_s=ENOUGH_S)),
    "Communicator.reduce":
        of_a_pair(lambda c: c.reduce(VALUES, np.zeros(4), root=0, timeout_s=ENOUGH_S)),
    "Communicator.all_gather": of_a_pair(lambda c: c.all_gather(VALUES, BOTH, ENOUGH_S)),
    "Communicator.all_to_all": of_a_pair(lambda c: c.all_to_all(BOTH, np.zeros(8), ENOUGH_S)),
    "Communicator.barrier": of_a_pair(lambda c: c.barrier(ENOUGH_S)),
    "Communicator.broadcast":
        of_a_pair(lambda c: c.broadcast(VALUES, root=1, timeout_s=ENOUGH_S)),
    "Communicator.gather":
        of_a_pair(lambda c: c.gather(VALUES, BOTH, root=0, timeout_s=ENOUGH_S)),
    "Communicator.scatter":
        of_a_pair(lambda c: c.scatter(None, VALUES, root=1, timeout_s=ENOUGH_S)),
    "Communicator.send": of_a_pair(lambda c: c.send(VALUES, to=1, timeout_s=ENOUGH_S)),
    "Communicator.recv": of_a_pair(lambda c: c.recv(VALUES, from_=1, timeout_s=ENOUGH_S)),
    "Communicator.open_to_subscribers":
        of_a_pair(lambda c: c.open_to_subscribers(ffdl.open_store("mem://"), ENOUGH_S)),
    "Ticket.wait": ticket,
    "MicroBatchSum.__init__":
        of_a_pair(lambda c: ffdl.MicroBatchSum(c, VALUES, shares=[1, 0], timeout_s=ENOUGH_S)),
    "MicroBatchSum.finish": finish_of_micro_batches,
    "AllReduceSubscriber.attach": lambda: lambda: ffdl.AllReduceSubscriber.attach(
        new_world(0, 2), ffdl.open_store("mem://"), ENOUGH_S),
    "AllReduceSubscriber.next": sum_of_a_subscriber,
    "BatchRing.put": lambda: lambda made=ring(): made.put([b"sample"], timeout_s=ENOUGH_S),
    "BatchRing.wait_used": use_of_a_ring,
    "BatchConsumer.next": next_of_a_consumer,
}
# Without a time-out of the call's own, or another way to wait.
OTHER_WAITS = {
    "among threads": of_a_pair(lambda c: c.barrier(ENOUGH_S), local_ranks),
    "SampleLedger.wait in a store": wait_of_a_store_ledger,
    "Session.open": lambda: lambda: open_session(ffdl.open_store("mem://"), "a"),
    "Session.end_step": of_a_session(lambda session: session.end_step(1)),
    "Session.finish": of_a_session(lambda session: session.finish()),
    "ElasticLoader.next": batch_of_a_loader,
}
# Of those that have a time-out: what nobody else can hold up, and what is the same code.
NOT_HELD_UP = {
    "ParameterServer.cut",  # its shards come by themselves
    "Learner.finish_push",  # a copy
    "Learner.finish_pull",
    "Communicator.continue_from",  # these wait with NCCL alone
    "Communicator.suspend",
    "Communicator.resume",
}


def with_a_time_out():
    """All calls of the compiled part that have one, by its stub."""
    stub = ast.parse(pathlib.Path(ffdl.__file__).with_name("_ffdl.pyi").read_text())

    def waits(function):
        arguments = [*function.args.args, *function.args.kwonlyargs]
        return any(argument.arg == "timeout_s" for argument in arguments)

    for node in stub.body:
        if isinstance(node, ast.FunctionDef) and waits(node):
            yield node.name
        for one in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(one, ast.FunctionDef) and waits(one):
                yield f"{node.name}.{one.name}"


def test_none_is_forgotten():
    starts_only = {name for name in with_a_time_out() if name.startswith("OperationQueue.")}
    assert set(with_a_time_out()) - starts_only - NOT_HELD_UP == WAITS.keys() - {
        "ParameterServer.serve"}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("name", [*WAITS, *OTHER_WAITS])
def test_ctrl_c_ends_it(name):
    expect_ctrl_c_to_end((WAITS | OTHER_WAITS)[name]())
