"""The back end ffdl of torch.distributed: works, messages, failures, lives and deaths."""

import datetime
import importlib.metadata
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
import weakref

import pytest
from elastic_jobs import wait_for
from interrupts import ENOUGH_S, expect_ctrl_c_to_end
from ranks import SOON_S, Launcher, exit_code, on_threads, start_process

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist  # noqa: E402
from torch_ranks import connect  # noqa: E402

import ffdl  # noqa: E402
import ffdl.torch  # noqa: E402
from ffdl.torch import ProcessGroupOptions  # noqa: E402
from ffdl.torch.comm.inbox import Inbox, Receive  # noqa: E402
from ffdl.torch.comm.lane import Lane, Work  # noqa: E402
from ffdl.torch.comm.operations import as_bytes, header  # noqa: E402
from ffdl.torch.comm.rendezvous import Rendezvous  # noqa: E402

ONE_MS = datetime.timedelta(milliseconds=1)


# --- works ---


def start_many(rank):
    tensors = [torch.full((n + 1,), float(rank + n)) for n in range(30)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    gathered = [torch.zeros(1), torch.zeros(1)]
    last = dist.all_gather(gathered, tensors[0], async_op=True)
    last.wait()
    assert gathered[0].item() == 1  # they run in their order: tensors[0] is reduced already
    for n, (work, tensor) in enumerate(zip(works, tensors, strict=True)):
        assert work.is_completed() and work.is_success() and work.exception() is None
        assert work.wait() and work.wait(datetime.timedelta(seconds=1))
        assert work.result()[0] is tensor
        assert (tensor == 2 * n + 1).all()
    dist.all_reduce(tensors[0])  # waits for nobody but the others: it runs on this thread
    assert tensors[0].item() == 2


def test_several_are_under_way(torch_processes):
    torch_processes.run(2, start_many)


def test_operations_keep_their_order_whoever_runs_them():
    for _ in range(20):
        lane, order = Lane(object, lambda: None), []
        lane.connect()
        entered, go_on = threading.Event(), threading.Event()

        def first(_, entered=entered, go_on=go_on, order=order):
            entered.set()
            assert go_on.wait(SOON_S)
            order.append(1)

        lane.give(Work("first", first, []), waits=False)
        assert entered.wait(SOON_S)
        lane.give(Work("second", lambda _, order=order: order.append(2), []), waits=False)
        threading.Timer(0.01, go_on.set).start()
        last = Work("third", lambda _, order=order: order.append(3), [])
        lane.give(last, waits=True).wait(datetime.timedelta(seconds=SOON_S))
        lane.close("")
        assert order == [1, 2, 3]


def test_a_failure_keeps_nothing_but_what_it_says():
    def fail(_):
        tensor = torch.ones(3)
        seen.append(weakref.ref(tensor))
        raise ValueError("what it says")

    lane, seen = Lane(object, lambda: None), []
    work = Work("fail", fail, [])
    del fail
    lane.give(work, waits=False)
    for _ in range(2):
        with pytest.raises(dist.DistBackendError, match="what it says") as error:
            work.wait()
        assert isinstance(error.value.__cause__, ValueError)
    del error
    lane.close("")
    assert seen[0]() is None and isinstance(work.exception(), dist.DistBackendError)


def ask_for_futures(rank):
    tensor = torch.full((100_000,), rank + 1.0)
    work = dist.all_reduce(tensor, async_op=True)
    halved = work.get_future().then(lambda future: future.value()[0] / 2)
    assert (halved.wait() == 1.5).all()
    assert work.get_future().wait()[0] is tensor  # also when it has ended
    assert torch.futures.collect_all([work.get_future(), halved]).wait()
    options = dist.BroadcastOptions()
    options.rootRank = 7
    with pytest.raises(RuntimeError, match="root 7"):
        wrong = dist.group.WORLD.broadcast([torch.ones(1)], options)
        wrong.get_future().wait()
    assert wrong.is_completed() and not wrong.is_success()
    assert isinstance(wrong.exception().__cause__, ffdl.InvalidArgument)
    dist.barrier()  # a wrong call leaves the group alive


def test_futures(torch_processes):
    torch_processes.run(2, ask_for_futures)


def be_waited_for(rank):
    if rank == 1:
        dist.barrier(async_op=True).wait()
        return
    work = dist.barrier(async_op=True)
    entered = threading.Event()
    waiting = threading.Thread(target=lambda: (entered.set(), work.wait()))
    waiting.start()
    assert entered.wait(SOON_S)
    waiting.join(SOON_S)
    assert not waiting.is_alive() and work.is_completed()


def test_a_work_is_waited_for_on_any_thread(torch_processes):
    torch_processes.run(2, be_waited_for)


# --- messages ---


def send_first_on_both_sides(rank):
    mine, got = torch.full((100_000,), float(rank)), torch.zeros(100_000)
    sent, received = dist.isend(mine, 1 - rank), dist.irecv(got, 1 - rank)
    sent.wait()
    received.wait()
    assert (got == 1 - rank).all()


def test_both_may_send_first(torch_processes):
    torch_processes.run(2, send_first_on_both_sides)


def pass_around(rank):
    ranks = dist.get_world_size()
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    for dtype in [torch.float32, torch.bfloat16, torch.bool, torch.int64]:
        mine, got = torch.full((2, 3), rank).to(dtype), torch.zeros(3, 2, dtype=dtype).t()
        works = dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, mine, after), dist.P2POp(dist.irecv, got, before)]
        )
        for work in works:
            work.wait()
        assert (got == torch.full((2, 3), before).to(dtype)).all()
    if rank == 0:
        dist.send(torch.tensor(5.0), dst=1, tag=7)
        dist.send(torch.zeros(0), dst=1)
    if rank == 1:
        scalar = torch.tensor(0.0)
        assert dist.recv(scalar, src=0, tag=7) == 0 and scalar.item() == 5
        dist.recv(torch.zeros(0), src=0)
        with pytest.raises(ffdl.InvalidArgument, match="another rank"):
            dist.group.WORLD.send([scalar], 1, 0)


@pytest.mark.parametrize("ranks", [2, 3])
def test_messages(ranks, torch_processes):
    torch_processes.run(ranks, pass_around)


def mix_up_messages(rank):
    if rank == 0:
        dist.send(torch.ones(3), dst=1, tag=1)
        dist.send(torch.ones(3, dtype=torch.int32), dst=1, tag=2)
        dist.send(torch.ones(4), dst=1, tag=2)
        dist.send(torch.ones(4), dst=1, tag=2)
        dist.send(torch.full((2,), 5.0), dst=1, tag=2)
    else:
        for source in (0, 0, 0, None):
            with pytest.raises(dist.DistBackendError, match="[0-9]+ bytes with tag [12], perhaps"):
                dist.recv(torch.zeros(3), src=source, tag=2)
        got = torch.zeros(2)
        dist.recv(got, src=0, tag=2)  # the wrong ones are gone
        assert (got == 5).all()


def test_messages_that_are_not_the_wanted_ones_are_refused(torch_processes):
    torch_processes.run(2, mix_up_messages)


# --- messages from any rank ---


def receive_from_any(rank):
    """All send to all others, and each receives from any."""
    ranks, count = dist.get_world_size(), 10
    others = [other for other in range(ranks) if other != rank]
    sent = [
        dist.isend(torch.tensor([rank, number]), other)
        for number in range(count) for other in others
    ]
    got = {other: [] for other in others}
    for number in range(count * len(others)):
        tensor = torch.zeros(2, dtype=torch.int64)
        if number % 2 == 0:
            source = dist.recv(tensor)
        else:
            work = dist.irecv(tensor)
            work.wait()
            source = work._source_rank()
            assert source == work.source_rank()
        assert tensor[0] == source
        got[source].append(tensor[1].item())
    assert got == {other: list(range(count)) for other in others}
    for work in sent:
        work.wait()
    part = dist.new_group([0, ranks - 1])
    if rank == ranks - 1:
        dist.send(torch.ones(1), 0, group=part)
    if rank == 0:
        assert dist.recv(torch.zeros(1), group=part) == ranks - 1  # not its rank in that group


@pytest.mark.parametrize("ranks", [2, 3])
def test_messages_from_any_rank(ranks, torch_processes):
    torch_processes.run(ranks, receive_from_any)


def receive_from_any_and_one(rank):
    def sends(*messages):
        dist.barrier()
        for value, tag in messages if rank == 1 else ():
            dist.send(torch.tensor(value), 0, tag=tag)

    def receives(*sources_and_tags):
        """Starts all, before the other rank sends."""
        tensors = [torch.tensor(-1) for _ in sources_and_tags]
        works = [
            dist.irecv(tensor, source, tag=tag)
            for tensor, (source, tag) in zip(tensors, sources_and_tags, strict=True)
        ]
        return tensors, works

    for first, second in [(1, None), (None, 1), (None, None)]:
        if rank == 0:
            tensors, works = receives((first, 0), (second, 0))
        sends((10, 0), (20, 0))
        if rank == 0:
            for work in works:
                work.wait()
                assert work.source_rank() == 1
            assert tensors == [torch.tensor(10), torch.tensor(20)]
    # A message of another tag is left for the receive that names it.
    if rank == 0:
        tensors, works = receives((None, 5), (None, 6))
    sends((30, 7), (40, 6), (50, 5))
    if rank == 0:
        assert not works[0].is_completed() and works[0].source_rank() == -1
        got = torch.tensor(-1)
        dist.recv(got, 1, tag=7)
        for work in works:
            work.wait()
        assert [got, *tensors] == [torch.tensor(30), torch.tensor(50), torch.tensor(40)]
    dist.barrier()


def test_a_message_goes_to_the_first_receive_that_takes_it(torch_processes):
    torch_processes.run(2, receive_from_any_and_one)


def groups_of(ranks, timeout_s):
    """Groups in this process, each a rank of one world."""
    store, timeout = dist.HashStore(), datetime.timedelta(seconds=timeout_s)
    names = [f"global{rank}" for rank in range(ranks)]
    return on_threads(range(ranks), lambda rank: ffdl.torch.ProcessGroup(
        store, rank, names, timeout, ProcessGroupOptions()))


def end(groups):
    for group in groups:
        group.abort()
        group.shutdown()


@pytest.mark.parametrize("source", [1, None])
def test_a_receive_ends_at_its_time_out_and_takes_nothing(source):
    groups = groups_of(3, ENOUGH_S)
    a, b, _ = groups
    got = torch.zeros(1)
    # Before and after they have connected, which has a part in the first time-out.
    for number, reason in enumerate(["timeout has passed: (recv from|connect)",
                                     "timeout has passed: recv from"]):
        a.set_timeout(datetime.timedelta(milliseconds=200))
        work = a.recv([got], 1, 3) if source else a.recv_anysource([got], 3)
        began = time.monotonic()
        with pytest.raises(dist.DistBackendError, match=reason) as error:
            work.wait()
        assert time.monotonic() - began < ENOUGH_S and work.source_rank() == -1
        assert isinstance(error.value.__cause__, ffdl.Timeout)
        a.set_timeout(datetime.timedelta(seconds=ENOUGH_S))
        sent = b.send([torch.full((1,), number + 1.0)], 0, 3)
        work = a.recv_anysource([got], 3)
        assert work.wait() and sent.wait() and work.source_rank() == 1 and got == number + 1
    if not source:
        a.set_timeout(datetime.timedelta(milliseconds=200))
        b.send([got], 0, 4)

        def reason():
            with pytest.raises(dist.DistBackendError) as error:
                a.recv_anysource([got], 3).wait()
            return str(error.value)

        wait_for(lambda: "'global1' has sent a message with tag 4" in reason(), "it is named")
    end(groups)


def test_a_receive_from_any_rank_outlives_those_that_leave():
    groups = groups_of(3, ENOUGH_S)
    a, b, c = groups
    got = torch.zeros(1)
    for sender in (b, c):
        sent = sender.send([got], 0, 0)
        a.recv_anysource([got], 0).wait()
        sent.wait()
    works = [a.recv_anysource([got], 0) for _ in range(2)]
    b.shutdown()
    c.send([torch.full((1,), 5.0)], 0, 0).wait()
    works[0].wait()
    assert got == 5 and works[0].source_rank() == 2
    c.shutdown()
    for work in (works[1], a.recv_anysource([got], 0)):
        with pytest.raises(dist.DistBackendError) as error:
            work.wait()
        assert isinstance(error.value.__cause__, ffdl.PeerLost)
    end(groups)


def one_of_two(rank, port):
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    return ffdl.torch.ProcessGroup(
        dist.PrefixStore("killed sender", store), rank, ["global0", "global1"],
        datetime.timedelta(seconds=60), ProcessGroupOptions())


def send_once_and_wait(port, ready):
    one_of_two(1, port).send([torch.ones(1)], 0, 0).wait()
    ready.send_bytes(b"sent")
    threading.Event().wait()


def test_a_killed_sender_ends_a_receive_from_any_rank(torch_processes):
    ready, ready_end = multiprocessing.Pipe()
    victim = start_process(send_once_and_wait, torch_processes.port, ready_end)
    group = one_of_two(0, torch_processes.port)
    try:
        group.recv_anysource([torch.zeros(1)], 0).wait()
        work = group.recv_anysource([torch.zeros(1)], 0)
        assert ready.poll(SOON_S)
        victim.kill()
        with pytest.raises(dist.DistBackendError, match="global1") as error:
            work.wait(datetime.timedelta(seconds=SOON_S))
        assert isinstance(error.value.__cause__, ffdl.PeerLost)
    finally:
        victim.kill()
        victim.join()
        end([group])


def test_the_end_of_a_group_ends_receives_from_any_rank():
    groups = groups_of(2, ENOUGH_S)
    a, b = groups
    got = torch.zeros(1)
    sent = b.send([got], 0, 0)
    a.recv_anysource([got], 0).wait()
    sent.wait()
    work = a.recv_anysource([got], 0)  # waits in b's lane
    a.abort()
    with pytest.raises(dist.DistBackendError, match="the process group was aborted"):
        work.wait()
    with pytest.raises(ffdl.Cancelled, match="was aborted"):
        a.recv_anysource([got], 0)
    end(groups)
    (alone,) = groups_of(1, ENOUGH_S)
    with pytest.raises(ffdl.InvalidArgument, match="no other rank"):
        alone.recv_anysource([got], 0)
    end([alone])


def test_a_group_that_is_destroyed_waits_for_its_receives():
    groups = groups_of(3, ENOUGH_S)
    a, b, c = groups
    got, other = torch.zeros(1), torch.zeros(1)
    sent = c.send([other], 0, 0)
    a.recv_anysource([other], 0).wait()
    sent.wait()
    work = a.recv_anysource([got], 0)  # waits for c, which sends nothing more, and for b
    ending = threading.Thread(target=a.shutdown)
    ending.start()
    b.send([torch.ones(1)], 0, 0).wait()
    ending.join(SOON_S)
    assert not ending.is_alive() and work.is_success() and got == 1
    end(groups)


class OneMessage:
    """A communicator over which one message comes; its rest once it is let go."""

    def __init__(self, tensor, size=None):
        self.begun, self.go_on, self.aborted = threading.Event(), threading.Event(), ""
        self._head = header(tensor, 0)
        self._head[2] = self._head[2] if size is None else size
        self._body = as_bytes(tensor)

    def recv(self, out, from_, timeout_s):
        if out.dtype == self._head.dtype and not self.begun.is_set():
            self.begun.set()
            out[:] = self._head
            return
        assert self.go_on.wait(SOON_S)
        if self.aborted:
            raise ffdl.Cancelled(self.aborted)
        out[:] = self._body

    def abort(self, why):
        self.aborted = why


def inbox_of(communicator):
    lane = Lane(lambda: communicator, lambda: None)
    return lane, Inbox(["a", "b"], 0, lambda sender: lane, lambda sender: False)


def test_the_end_of_a_group_lets_a_message_arrive_that_has_begun():
    communicator = OneMessage(torch.ones(1))
    lane, inbox = inbox_of(communicator)
    got = torch.zeros(1)
    work = inbox.give(Receive(got, 1, 0, ENOUGH_S))
    assert communicator.begun.wait(SOON_S)
    ending = threading.Thread(target=inbox.close, args=("destroyed",))
    ending.start()
    ending.join(0.2)
    assert ending.is_alive() and not communicator.aborted
    communicator.go_on.set()
    ending.join(SOON_S)
    assert not ending.is_alive() and work.is_success() and got == 1
    lane.close("")


def test_a_message_that_memory_does_not_hold_ends_its_receive():
    communicator = OneMessage(torch.ones(1), size=1 << 62)
    lane, inbox = inbox_of(communicator)
    work = inbox.give(Receive(torch.zeros(1), 1, 0, ENOUGH_S))
    with pytest.raises(dist.DistBackendError):
        work.wait(datetime.timedelta(seconds=SOON_S))
    assert work.exception().__cause__ is not None
    inbox.close("destroyed")
    lane.close("")


# --- failures ---


def call_wrongly(rank):
    ones = torch.ones(2)
    for call, match in [
        (lambda: dist.all_reduce(torch.ones(2, device="meta")), "a tensor on 'meta'; copy it"),
        (lambda: dist.broadcast(ones.to_sparse(), src=0), "x.to_dense"),
        (lambda: dist.all_reduce(ones.to_sparse(), dist.ReduceOp.MAX), "use SUM or AVG"),
        (lambda: dist.all_reduce(ones, dist.ReduceOp.BAND), "use one of SUM, AVG, MIN"),
        (lambda: dist.all_reduce(ones.to(torch.float8_e4m3fn)), "convert them"),
        (lambda: dist.all_reduce(ones > 0, dist.ReduceOp.AVG), "use one of SUM"),
        (lambda: dist.all_reduce(ones + 1j, dist.ReduceOp.MAX), "complex"),
        (lambda: dist.all_gather([ones.clone()], ones), "pass one item per rank"),
    ]:
        with pytest.raises(ValueError, match=match):
            call()
    dist.all_reduce(ones)
    assert ones[0] == 2


def test_a_wrong_call_leaves_the_group_alive(torch_processes):
    torch_processes.run(2, call_wrongly)


DISAGREEMENTS = {  # what rank 0 and rank 1 do, and what both are told of each
    "size": [
        (lambda: dist.all_reduce(torch.ones(10)), "of 10 float32"),
        (lambda: dist.all_reduce(torch.ones(11)), "of 11 float32")],
    "dtype": [
        (lambda: dist.all_reduce(torch.ones(10)), "of 10 float32"),
        (lambda: dist.all_reduce(torch.ones(10, dtype=torch.float64)), "of 10 float64")],
    "reduction": [
        (lambda: dist.all_reduce(torch.ones(10)), "sum"),
        (lambda: dist.all_reduce(torch.ones(10), dist.ReduceOp.MAX), "max")],
    "operation": [
        (lambda: dist.all_reduce(torch.ones(10)), "all_reduce"),
        (lambda: dist.broadcast(torch.ones(10), src=0), "broadcast")],
    "root": [
        (lambda: dist.broadcast(torch.ones(10), src=0), "root 0"),
        (lambda: dist.broadcast(torch.ones(10), src=1), "root 1")],
}


def disagree(rank, kind):
    with pytest.raises(dist.DistBackendError) as error:
        DISAGREEMENTS[kind][rank][0]()
    assert isinstance(error.value.__cause__, ffdl.InvalidArgument)
    for _, told in DISAGREEMENTS[kind]:
        assert told in str(error.value)
    with pytest.raises(dist.DistBackendError):  # it stays failed
        dist.barrier()


@pytest.mark.parametrize("kind", DISAGREEMENTS)
def test_ranks_that_disagree_are_both_told(kind, torch_processes):
    torch_processes.run(2, disagree, kind)


def come_late(rank, how):
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        store.wait(["late"])
        return
    options = dist.AllreduceOptions()
    options.timeout = datetime.timedelta(milliseconds=50)
    if hasattr(options, "asyncOp"):
        options.asyncOp = how == "later"
    with pytest.raises(dist.DistBackendError, match="rank 1 'global1' had not arrived") as error:
        if how == "monitored":
            dist.group.WORLD.monitored_barrier(options.timeout)
        else:
            dist.group.WORLD.allreduce([torch.ones(1)], options).wait()
    assert isinstance(error.value.__cause__, ffdl.Timeout)
    store.set("late", "")


@pytest.mark.parametrize("how", ["now", "later", "monitored"])
def test_an_operation_ends_at_its_time_out(how, torch_processes):
    torch_processes.run(2, come_late, how)


def wait_too_short(rank):
    if rank == 1:
        store = dist.distributed_c10d._get_default_store()
        store.wait(["go on"])
        dist.barrier()
        return
    work = dist.barrier(async_op=True)
    with pytest.raises(dist.DistBackendError, match="has not ended after .* continues"):
        work.wait(ONE_MS)
    assert not work.is_completed()
    dist.distributed_c10d._get_default_store().set("go on", "")
    work.wait()


def test_a_wait_that_is_too_short_ends_nothing(torch_processes):
    torch_processes.run(2, wait_too_short)


def test_who_does_not_come_is_named():
    for rank, other in enumerate("ba"):
        with pytest.raises(ffdl.Timeout, match=f"'{other}' has not arrived; start all ranks"):
            Rendezvous(dist.HashStore(), ProcessGroupOptions()).connect(rank, ["a", "b"], 0.05)


@pytest.mark.parametrize("rank", [0, 1])
def test_ctrl_c_ends_the_wait_for_others(rank):
    way = Rendezvous(dist.HashStore(), ProcessGroupOptions())
    expect_ctrl_c_to_end(lambda: way.connect(rank, ["a", "b"], ENOUGH_S))


@pytest.mark.parametrize("how", ["now", "later", "message"])
def test_ctrl_c_ends_the_wait_for_a_work(how):
    """What is waited for at once runs on the thread that waits, and is over then."""
    store, long = dist.HashStore(), datetime.timedelta(seconds=ENOUGH_S)
    first, second = on_threads(range(2), lambda rank: ffdl.torch.ProcessGroup(
        store, rank, ["a", "b"], long, ProcessGroupOptions()))
    options = dist.AllreduceOptions()
    if hasattr(options, "asyncOp"):
        options.asyncOp = how == "later"
    tensors = [torch.ones(1)]
    expect_ctrl_c_to_end(
        (lambda: first.recv(tensors, 1, 0).wait()) if how == "message" else
        (lambda: first.allreduce(tensors, options).wait()))
    for group in (first, second):
        group.abort()
        group.shutdown()


def abort_one(rank):
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        work = dist.barrier(async_op=True)
        dist.group.WORLD.abort()
        with pytest.raises(dist.DistBackendError, match="aborted|lost"):
            work.wait()
        with pytest.raises(ffdl.Cancelled, match="was aborted"):
            dist.barrier()
        store.set("aborted", "")
    else:
        store.wait(["aborted"])
        with pytest.raises(dist.DistBackendError, match="global0") as error:
            for _ in range(2):
                dist.barrier()
        assert isinstance(error.value.__cause__, ffdl.PeerLost)


def test_abort_ends_it_for_all(torch_processes):
    torch_processes.run(2, abort_one)


def take_part_until_killed(port, ready):
    connect("ffdl", 1, 2, port, "killed")
    dist.barrier()
    ready.send_bytes(b"ready")
    threading.Event().wait()


def survive(port, ready, result):
    connect("ffdl", 0, 2, port, "killed")
    dist.barrier()
    result.send_bytes(b"waiting")
    try:
        dist.all_reduce(torch.ones(100_000))
    except dist.DistBackendError as error:
        assert isinstance(error.__cause__, ffdl.PeerLost), error
        result.send_bytes(b"lost")
    dist.destroy_process_group()


def test_a_killed_peer_is_lost(torch_processes):
    ready, ready_end = multiprocessing.Pipe()
    result, result_end = multiprocessing.Pipe()
    victim = start_process(take_part_until_killed, torch_processes.port, ready_end)
    survivor = start_process(survive, torch_processes.port, None, result_end)
    try:
        assert ready.poll(SOON_S) and result.poll(SOON_S) and result.recv_bytes() == b"waiting"
        victim.kill()
        assert result.poll(SOON_S) and result.recv_bytes() == b"lost"
        assert exit_code(survivor) == 0
    finally:
        for process in (victim, survivor):
            process.kill()
            process.join()


def outlive_the_launcher(port, rank, result):
    connect("ffdl", rank, 2, port, "launcher")
    dist.barrier()
    result.send_bytes(b"up")
    if rank == 1:
        threading.Event().wait()  # takes no part any more
    try:
        dist.all_reduce(torch.ones(1000))
    except dist.DistBackendError as error:
        assert isinstance(error.__cause__, ffdl.Cancelled), error
        result.send_bytes(str(error).encode())
    dist.destroy_process_group()


def test_the_end_of_the_launcher_ends_a_wait(torch_processes, monkeypatch):
    launcher = Launcher(monkeypatch)
    pipes = [multiprocessing.Pipe() for _ in range(2)]
    ranks = [
        start_process(outlive_the_launcher, torch_processes.port, rank, pipes[rank][1])
        for rank in range(2)
    ]
    try:
        for result, _ in pipes:
            assert result.poll(SOON_S) and result.recv_bytes() == b"up"
        launcher.kill()
        result = pipes[0][0]
        assert result.poll(SOON_S)
        said = f"its launcher, 'ffdl run' with process id {launcher.pid}, has ended"
        assert said in result.recv_bytes().decode()
        assert exit_code(ranks[0]) == 0
    finally:
        launcher.kill()
        for process in ranks:
            process.kill()
            process.join()


def call_in_a_fork(port):
    connect("ffdl", 0, 1, port, "fork")
    dist.barrier(async_op=True).wait()
    child = os.fork()
    if child == 0:
        with pytest.raises(ffdl.Cancelled, match="init_process_group in this process"):
            dist.barrier()
        dist.destroy_process_group()  # waits for no thread that is not here
        os._exit(42)
    _, status = os.waitpid(child, 0)
    dist.barrier()
    os._exit(os.waitstatus_to_exitcode(status))


def test_a_fork_is_no_member(torch_processes):
    assert exit_code(start_process(call_in_a_fork, torch_processes.port)) == 42


def leave_without_destroying(port):
    connect("ffdl", 0, 1, port, "leave")
    dist.barrier(async_op=True).wait()


def test_a_process_that_forgets_to_destroy_ends(torch_processes):
    assert exit_code(start_process(leave_without_destroying, torch_processes.port)) == 0


# --- ways, lives and other back ends ---


def sum_up(rank):
    tensor = torch.full((1000,), rank + 1.0)
    dist.all_reduce(tensor)
    assert (tensor == 3).all()
    return dist.group.WORLD._collectives.connect().backend


def test_over_tcp_too(torch_processes):
    """As between hosts."""
    for tls in (False, True):
        options = ffdl.torch.ProcessGroupOptions(
            backend=ffdl.Backend.TCP, address="127.0.0.1", tls=tls
        )
        assert torch_processes.run(2, sum_up, pg_options=options) == [ffdl.Backend.TCP] * 2
    assert torch_processes.run(2, sum_up) == [ffdl.Backend.SHM] * 2


# In a process of its own: PyTorch counts the groups that it did not make, too.
def give_other_options(port):
    with pytest.raises(ffdl.InvalidArgument, match="give ffdl.torch.ProcessGroupOptions"):
        connect("ffdl", 0, 1, port, "options", pg_options={"address": ""})


def test_options_of_another_kind_are_refused(torch_processes):
    assert exit_code(start_process(give_other_options, torch_processes.port)) == 0


def held():
    with open("/proc/self/status") as status:
        threads = next(int(line.split()[1]) for line in status if line.startswith("Threads:"))
    return threads, len(os.listdir("/proc/self/fd")), os.listdir(tempfile.gettempdir())


def live_often(rank, port, name, folder, lives):
    tempfile.tempdir = folder

    def live(number):
        connect("ffdl", rank, 2, port, name)  # with the keys of the life before
        tensor = torch.ones(10)
        dist.all_reduce(tensor, async_op=True).wait()
        if number % 10 == 0:
            dist.isend(torch.full((10,), 2.0), 1 - rank)
            got = torch.zeros(10)
            received = dist.irecv(got, 1 - rank)
        dist.all_reduce(tensor)
        dist.destroy_process_group()  # waits for what was started
        assert number % 10 != 0 or (received.is_success() and got[0] == 2)

    live(0)
    before = held()
    for number in range(1, lives + 1):
        live(number)
    patience = time.monotonic() + SOON_S
    while held() > before and time.monotonic() < patience:
        time.sleep(0.01)  # a thread that was joined is counted for a moment longer
    return before, held()


@pytest.mark.parametrize("lives", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_lives_leave_nothing(torch_processes, tmp_path, lives):
    pipes = [multiprocessing.Pipe() for _ in range(2)]
    processes = [
        start_process(
            report, live_often, writer, rank, torch_processes.port, f"lives-{lives}", str(tmp_path),
            lives,
        )
        for rank, (_, writer) in enumerate(pipes)
    ]
    for _, writer in pipes:
        writer.close()
    try:
        for reader, _ in pipes:
            before, after = reader.recv()  # EOFError when it has ended without
            # One that was ending may have been counted before; each life would leave another.
            assert after[0] <= before[0] and after[1] <= before[1] and after[2] == []
    finally:
        for process in processes:
            process.kill()
            process.join()
    assert not any(tmp_path.iterdir())


def report(body, pipe, *arguments):
    pipe.send(body(*arguments))


class Recorder(dist.ProcessGroup):
    """The back end of another device, which notes what it is asked for."""

    def __init__(self, rank, size):
        super().__init__(rank, size)
        self.asked = []

    group_name = property(lambda self: "recorder")

    def _set_group_name(self, name):
        pass

    _set_group_desc = _set_group_name

    def shutdown(self):
        pass

    def allreduce(self, tensors, opts):
        self.asked.append(tensors[0].device.type)
        future = torch.futures.Future()
        future.set_result(tensors)
        return torch._C._distributed_c10d._create_work_from_future(future)


def use_two_back_ends(rank, port):
    dist.Backend.register_backend(
        "recorder", lambda store, rank, size, timeout: Recorder(rank, size), devices=["meta"]
    )
    connect("cpu:ffdl,meta:recorder", rank, 2, port, "two")
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    dist.all_reduce(torch.ones(3, device="meta"))
    dist.all_reduce(torch.ones(3, device="meta"), async_op=True).wait()
    (other,) = dist.group.WORLD._other_devices.values()
    objects = [rank] if rank == 0 else [None]
    dist.broadcast_object_list(objects, src=0)
    asked = other.asked
    dist.destroy_process_group()
    os._exit(42 if asked == ["meta", "meta"] and tensor[0] == 2 and objects == [0] else 1)


def test_tensors_of_another_device_go_to_its_back_end(torch_processes):
    processes = [start_process(use_two_back_ends, r, torch_processes.port) for r in range(2)]
    assert [exit_code(process) for process in processes] == [42, 42]


def test_pytorch_has_no_groups_whose_members_change():
    """Where this fails, ffdl.torch.ProcessGroup can take part in them (docs/decisions/0019)."""
    c10d = torch._C._distributed_c10d
    for owner in (dist, c10d, dist.ProcessGroup, c10d.Backend):
        assert not [name for name in dir(owner) if "reconfigur" in name.lower()]


def test_the_back_end_is_found_without_an_import():
    names = importlib.metadata.entry_points(group="torch.backends").names
    if "ffdl" not in names:
        pytest.skip("ffdl is not installed as a wheel with its entry points")
    program = (
        "import sys, torch.distributed as dist;"
        "assert 'ffdl.torch' not in sys.modules;"
        "dist.init_process_group('ffdl', store=dist.HashStore(), rank=0, world_size=1);"
        "dist.barrier(); dist.destroy_process_group(); print('found')"
    )
    for one in (program, "import ffdl.torch; print('found')"):
        done = subprocess.run(
            [sys.executable, "-c", one], capture_output=True, text=True, timeout=300
        )
        assert done.stdout == "found\n", done.stderr
