"""Collectives from Python: every one against NumPy, and how they fail."""

import multiprocessing
import os
import signal
import threading

import numpy as np
import pytest
from ranks import (
    SOON_S,
    connect,
    exit_code,
    local_ranks,
    new_world,
    on_threads,
    shared_ranks,
    start_process,
)

import ffdl
from ffdl import ReduceOp

DTYPES = ["int8", "int16", "int32", "int64", "float16", "float32", "float64"]
BLOCK = 1001


def given_by(rank, count, dtype):
    """Small numbers: sums and products of four are exact in every type."""
    return ((np.arange(count) + rank) % 3 + 1).astype(dtype)


def check_reductions(communicator, dtype):
    size, rank = communicator.size, communicator.rank
    inputs = np.stack([given_by(r, size * BLOCK, dtype) for r in range(size)])
    expected = {
        ReduceOp.SUM: inputs.sum(0, dtype=dtype),
        ReduceOp.MIN: inputs.min(0),
        ReduceOp.MAX: inputs.max(0),
        ReduceOp.PRODUCT: inputs.prod(0, dtype=dtype),
    }
    if not dtype.startswith("int"):
        expected[ReduceOp.MEAN] = (inputs.sum(0, dtype="float64") / size).astype(dtype)
    for op, reduced in expected.items():
        inout = inputs[rank].copy()
        communicator.all_reduce(inout, op)
        np.testing.assert_array_equal(inout, reduced)
        out = np.zeros_like(inout)
        communicator.all_reduce(inputs[rank], out, op, timeout_s=SOON_S)
        np.testing.assert_array_equal(out, reduced)
        block = np.zeros(BLOCK, dtype)
        communicator.reduce_scatter(inputs[rank], block, op)
        np.testing.assert_array_equal(block, reduced[rank * BLOCK : (rank + 1) * BLOCK])
        out[:] = 0
        communicator.reduce(inputs[rank], out if rank == 1 else None, root=1, op=op)
        np.testing.assert_array_equal(out, reduced if rank == 1 else 0)


def check_moves(communicator, dtype):
    size, rank = communicator.size, communicator.rank
    inputs = np.stack([given_by(r, size * BLOCK, dtype) for r in range(size)])
    blocks = inputs.reshape(size, size, BLOCK)
    gathered = np.zeros((size, size * BLOCK), dtype)
    communicator.all_gather(inputs[rank], gathered)
    np.testing.assert_array_equal(gathered, inputs)
    gathered[:] = 0
    communicator.gather(inputs[rank], gathered if rank == 0 else None, root=0)
    np.testing.assert_array_equal(gathered, inputs if rank == 0 else 0)
    inout = inputs[rank].copy()
    communicator.broadcast(inout, root=size - 1)
    np.testing.assert_array_equal(inout, inputs[size - 1])
    block = np.zeros(BLOCK, dtype)
    communicator.scatter(inputs[1] if rank == 1 else None, block, root=1)
    np.testing.assert_array_equal(block, blocks[1, rank])
    exchanged = np.zeros((size, BLOCK), dtype)
    communicator.all_to_all(inputs[rank], exchanged)
    np.testing.assert_array_equal(exchanged, blocks[:, rank])


def check_pairs(communicator, dtype):
    """Around the ring: rank 0 sends first, the others pass on what they get."""
    size, rank = communicator.size, communicator.rank
    before, after = (rank - 1) % size, (rank + 1) % size
    values = given_by(0, BLOCK, dtype) if rank == 0 else np.zeros(BLOCK, dtype)
    if rank == 0:
        communicator.send(values, to=after)
        values[:] = 0
    communicator.recv(values, from_=before, timeout_s=SOON_S)
    if rank != 0:
        communicator.send([values[:10], values[10:]], to=after)
    np.testing.assert_array_equal(values, given_by(0, BLOCK, dtype))


def check_all(communicator):
    for dtype in DTYPES:
        check_reductions(communicator, dtype)
        check_moves(communicator, dtype)
        check_pairs(communicator, dtype)
    communicator.barrier()
    return communicator.rank, communicator.size


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_every_collective_among_processes(ranks, processes, url):
    assert processes.run(ranks, url, check_all) == [(rank, ranks) for rank in range(ranks)]


@pytest.mark.parametrize("make", [local_ranks, shared_ranks])
def test_every_collective_among_threads(make):
    assert on_threads(make(3), check_all) == [(0, 3), (1, 3), (2, 3)]


def test_a_world_says_who_is_in_it():
    members = ["a", ("b", 7), ffdl.Member("c")]
    (communicator, *_) = ffdl.make_local_communicators(5, members)
    world = communicator.world
    assert (world.generation, world.rank, world.size) == (5, 0, 3)
    assert [(m.id, m.incarnation) for m in world.members] == [("a", 0), ("b", 7), ("c", 0)]
    assert "generation=5" in repr(world)
    with pytest.raises(ffdl.InvalidArgument, match="ids are unique"):
        ffdl.make_local_communicators(1, ["a", "a"])


def test_a_tuple_is_a_world():
    with pytest.raises(ffdl.InvalidArgument, match="only members can connect"):
        ffdl.connect_communicator((1, 2, ["a", "b"]), ffdl.open_store("mem://"), SOON_S)


def test_a_list_counts_as_its_concatenation():
    def body(communicator):
        cut = 3 + communicator.rank
        inout = [np.ones((cut, 2)), np.full(0, 7.0), np.full(20 - 2 * cut, 2.0)]
        communicator.all_reduce(inout, ReduceOp.SUM)
        return np.concatenate([one.ravel() for one in inout])

    first, second = on_threads(shared_ranks(2), body)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, [2] * 6 + [3] * 2 + [4] * 12)


def test_a_sum_is_the_same_bits_everywhere(processes, url):
    sums = processes.run(4, url, sum_of_random_numbers)
    assert len(set(sums)) == 1
    inputs = [np.random.default_rng(r).standard_normal(30000).astype(np.float32) for r in range(4)]
    assert sums[0] == ((inputs[0] + inputs[1]) + (inputs[2] + inputs[3])).tobytes()


def sum_of_random_numbers(communicator):
    inout = np.random.default_rng(communicator.rank).standard_normal(30000).astype(np.float32)
    communicator.all_reduce(inout)
    return inout.tobytes()


# --- failures ---


def failures(communicators, body):
    """What each raised."""

    def failing(communicator):
        with pytest.raises(ffdl.Error) as error:
            body(communicator)
        return error.value

    return on_threads(communicators, failing)


def lose_a_peer(communicator):
    """Whoever failed may have come to the first barrier before, which then ends well here."""
    with pytest.raises(ffdl.PeerLost, match="rank 0 'm0'"):
        for _ in range(2):
            communicator.barrier()


@pytest.mark.parametrize("make", [local_ranks, shared_ranks])
def test_ranks_that_disagree_are_both_told(make):
    def body(communicator):
        communicator.all_reduce(np.zeros(10 + communicator.rank))

    for error in failures(make(2), body):
        assert isinstance(error, ffdl.InvalidArgument)
        assert "of 10 float64" in str(error) and "of 11 float64" in str(error)


@pytest.mark.parametrize("make", [local_ranks, shared_ranks])
def test_a_deadline_ends_it_for_all(make):
    first, second = make(2)
    with pytest.raises(TimeoutError, match="rank 1 'm1' had not arrived"):
        first.barrier(timeout_s=0.05)
    with pytest.raises(ffdl.Timeout):  # it stays failed
        first.barrier()
    lose_a_peer(second)


@pytest.mark.parametrize("make", [local_ranks, shared_ranks])
def test_abort_ends_a_wait_from_another_thread(make):
    first, second = make(2)
    later = threading.Timer(0.1, lambda: first.abort("enough"))
    later.start()
    with pytest.raises(ffdl.Cancelled, match="enough"):
        first.barrier(timeout_s=SOON_S)
    later.join()
    lose_a_peer(second)


def test_a_wrong_call_leaves_the_communicator_alive():
    def body(communicator):
        for wrong in (
            lambda: communicator.broadcast(np.zeros(3), root=2),
            lambda: communicator.all_reduce(np.zeros(3, np.int32), ReduceOp.MEAN),
            lambda: communicator.all_gather(np.zeros(3), np.zeros(5)),
            lambda: communicator.all_reduce([np.zeros(3), np.zeros(3, np.int8)]),
            lambda: communicator.barrier(timeout_s=-1),
        ):
            with pytest.raises(ValueError):
                wrong()
        inout = np.ones(3)
        communicator.all_reduce(inout)
        return inout[0]

    assert on_threads(shared_ranks(2), body) == [2, 2]


def test_who_does_not_come_is_named(url):
    with pytest.raises(ffdl.Timeout, match="rank 1 'm1' has not arrived"):
        ffdl.connect_communicator(new_world(0, 2), ffdl.open_store(url), 0.3)


def take_part_until_killed(url, ready):
    communicator = connect(1, 3, url)
    communicator.barrier()
    ready.send_bytes(b"ready")
    threading.Event().wait()


def test_a_killed_peer_is_lost(url):
    ready, child_end = multiprocessing.Pipe()
    victim = start_process(take_part_until_killed, url, child_end)

    def survive(rank):
        communicator = connect(rank, 3, url)
        communicator.barrier()
        if rank == 0:
            assert ready.poll(SOON_S)
            victim.kill()
        communicator.all_reduce(np.ones(100000), timeout_s=SOON_S)

    try:
        for error in failures([0, 2], survive):
            assert isinstance(error, ffdl.PeerLost)
            assert "rank 1" in str(error) or "failed or left" in str(error)
    finally:
        victim.kill()
        victim.join()


def call_in_a_fork():
    communicator, queued = connect(0, 1, "mem://"), connect(0, 1, "mem://")
    queue = ffdl.OperationQueue(queued)
    child = os.fork()
    if child == 0:
        signal.alarm(int(SOON_S) // 2)  # ends the child should it hang
        for call in (communicator.barrier, queue.barrier):
            with pytest.raises(ffdl.Cancelled, match="connect.* in the child"):
                call()
        del call, queue  # does not wait for a thread that is not here
        os._exit(42)
    _, status = os.waitpid(child, 0)
    communicator.barrier()  # what the child did leaves the parent alone
    queue.barrier().wait()
    os._exit(os.waitstatus_to_exitcode(status))


def test_a_fork_is_no_member():
    child = start_process(call_in_a_fork)
    assert exit_code(child) == 42


# --- signals ---


def wait_in_connect(url):
    ffdl.connect_communicator(new_world(0, 2), ffdl.open_store(url), float("inf"))


def wait_for_rank_0(url):
    ffdl.connect_communicator(new_world(1, 2), ffdl.open_store(url), float("inf"))


def wait_in_an_operation(url):
    communicator = connect(0, 2, url)
    try:
        communicator.barrier(timeout_s=float("inf"))
    except KeyboardInterrupt:
        with pytest.raises(ffdl.Cancelled, match="signal"):  # it stays failed
            communicator.barrier()
        raise


def wait_among_threads(url):
    communicators = local_ranks(2)
    communicators[0].barrier(timeout_s=float("inf"))


def wait_for_ticket(url):
    queue = ffdl.OperationQueue(connect(0, 2, url))
    queue.barrier(timeout_s=float("inf")).wait()


def abort_in_a_handler(url):
    communicator = connect(0, 2, url)

    def handler(number, frame):
        communicator.abort()

    signal.signal(signal.SIGINT, handler)
    try:
        communicator.barrier(timeout_s=float("inf"))
    except ffdl.InvalidArgument as error:
        if "raise an exception there instead" in str(error):
            raise KeyboardInterrupt from error


def until_interrupted(body, url, ready):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job's is ignored
    try:
        ready.send_bytes(b"ready")
        body(url)
    except KeyboardInterrupt:
        os._exit(42)


@pytest.mark.parametrize("body", [wait_in_connect, wait_for_rank_0, wait_among_threads])
def test_ctrl_c_ends_a_wait(body, url):
    ready, child_end = multiprocessing.Pipe()
    child = start_process(until_interrupted, body, url, child_end)
    assert ready.poll(SOON_S)
    child.join(0.2)  # let it come into the wait; an earlier signal must end it as well
    os.kill(child.pid, signal.SIGINT)
    assert exit_code(child) == 42


@pytest.mark.parametrize("body", [wait_in_an_operation, wait_for_ticket, abort_in_a_handler])
def test_ctrl_c_in_an_operation_is_a_loss_to_the_others(body, url):
    ready, child_end = multiprocessing.Pipe()
    child = start_process(until_interrupted, body, url, child_end)
    communicator = connect(1, 2, url)
    assert ready.poll(SOON_S)
    child.join(0.2)
    os.kill(child.pid, signal.SIGINT)
    assert exit_code(child) == 42
    lose_a_peer(communicator)


def note_signals(url, pipe):
    signal.signal(signal.SIGUSR1, lambda number, frame: pipe.send_bytes(b"handled"))
    communicator = connect(0, 2, url)
    pipe.send_bytes(b"ready")
    total = np.ones(3)
    communicator.all_reduce(total, timeout_s=SOON_S)
    os._exit(int(total[0]))


def test_a_handler_that_returns_runs_while_one_waits_and_stops_nothing(url):
    pipe, child_end = multiprocessing.Pipe()
    child = start_process(note_signals, url, child_end)
    communicator = connect(1, 2, url)
    assert pipe.poll(SOON_S) and pipe.recv_bytes() == b"ready"
    os.kill(child.pid, signal.SIGUSR1)
    assert pipe.poll(SOON_S) and pipe.recv_bytes() == b"handled"
    communicator.all_reduce(np.full(3, 41.0))
    assert exit_code(child) == 42


@pytest.mark.parametrize("name, tls", [("TCP", False), ("TCP", True), ("GLOO", False)])
def test_other_back_ends_move_the_same_and_say_so(name, tls):
    store = ffdl.open_store("mem://")

    def run(rank):
        try:
            communicator = ffdl.connect_communicator(
                new_world(rank, 2), store, SOON_S, backend=ffdl.Backend[name], tls=tls
            )
        except ffdl.Unimplemented:
            return None  # this build has none
        check_all(communicator)
        return communicator.backend

    backends = on_threads(range(2), run)
    if name == "GLOO" and backends == [None, None]:
        pytest.skip("built without FFDL_WITH_GLOO")
    assert backends == [ffdl.Backend[name]] * 2


def test_a_communicator_says_how_its_members_reach_each_other():
    assert shared_ranks(1)[0].backend == ffdl.Backend.SHM
    assert local_ranks(1)[0].backend == ffdl.Backend.LOCAL
    with pytest.raises(ffdl.InvalidArgument, match="make_local_communicators"):
        ffdl.connect_communicator(
            new_world(0, 1), ffdl.open_store("mem://"), SOON_S, backend=ffdl.Backend.LOCAL
        )
