"""The parameter server from Python: the same promises as in C++, without a copy."""

import array
import gc
import multiprocessing
import os
import signal
import threading
import time
import weakref

import numpy as np
import pytest
from test_buffers import FakeTensor, Tensor, read_only

import ffdl

SIZE = 1000
SOON_S = 120.0  # a bound for hangs


def new_server(name="", **options):
    options = {"rule": ffdl.UpdateRuleOptions("sgd", learning_rate=1.0), **options}
    return ffdl.ParameterServer.create(name=name, parameters=SIZE, **options)


def push_ones(learner, begin, count):
    """`count` mini-batches of one sample whose gradient is -1: each adds 1 to every weight."""
    for sample in range(begin, begin + count):
        learner.gradient_slot(SOON_S)[:] = -1
        learner.push(ffdl.Gradient.slot(), (0, sample, sample + 1))


def learn_in_child(name, begin, count):
    learner = ffdl.Learner.attach(name, SOON_S)
    push_ones(learner, begin, count)
    learner.detach(SOON_S)


def test_gradients_and_samples_arrive_once():
    server = new_server()
    server.start()
    learner = ffdl.Learner.attach(server, SOON_S)
    push_ones(learner, 0, 10)
    learner.flush(SOON_S)
    weights = np.zeros(SIZE, np.float32)
    version = learner.pull(weights)
    assert version == server.version > 0
    np.testing.assert_array_equal(weights, 10)
    assert learner.committed(0) == 10
    assert learner.stats().mini_batches == 10
    learner.detach(SOON_S)
    server.stop()
    stats = server.stats()
    assert stats.partitions[0].samples == stats.partitions[0].committed == 10
    assert stats.partitions[0].repeated == stats.partitions[0].missing == 0
    assert stats.learners[0].mini_batches == 10


def test_a_server_tells_where_its_memory_lies(name):
    server = new_server(name, bind_to_nodes=False)
    memory = server.stats().memory
    assert memory.note == "bind_to_nodes is off"
    assert not memory.bound and memory.threads_bound == 0
    assert len(memory.shard_nodes) == 1
    assert memory.huge_page_bytes == 0 and memory.huge_page_note
    view = ffdl.ParameterServerView.open(name, SOON_S)
    assert view.stats().memory.shard_nodes == memory.shard_nodes


def test_learners_are_processes(name):
    server = new_server(name, partitions=1)
    server.weights()[:] = 5
    server.start()
    spawn = multiprocessing.get_context("spawn")
    for begin in (0, 20):
        child = spawn.Process(target=learn_in_child, args=(name, begin, 20))
        child.start()
        child.join(60)
        assert child.exitcode == 0
    view = ffdl.ParameterServerView.open(name, SOON_S)
    weights = np.empty(SIZE, np.float32)
    view.pull(weights, ffdl.PullMode.SNAPSHOT)
    np.testing.assert_array_equal(weights, 45)
    assert view.parameters == SIZE
    assert view.stats().partitions[0].committed == 40
    assert [s.name for s in ffdl.list_segments() if s.name == name and s.in_use] == [name]
    with pytest.raises(ffdl.Conflict):
        ffdl.remove_segment(name)


def test_arrays_are_views_that_keep_the_segment_alive():
    server = new_server()
    weights = server.weights()
    assert weights.dtype == np.float32 and weights.shape == (SIZE,)
    weights[:] = 3
    np.testing.assert_array_equal(server.weights(), 3)
    gone = weakref.ref(weights)
    del server
    gc.collect()
    weights[0] = 4
    assert weights[0] == 4 and weights[1] == 3
    del weights
    assert gone() is None


def test_a_learner_keeps_the_server_of_its_process_alive():
    learner = ffdl.Learner.attach(new_server(), SOON_S)
    gc.collect()
    slot = learner.gradient_slot(SOON_S)
    live = learner.live_weights()
    del learner
    gc.collect()
    slot[:] = 1
    assert live[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        live[0] = 1


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ([0.0] * SIZE, "a list; give a C-contiguous float32 array of 1000 elements"),
        (np.zeros(SIZE, np.float64), "float64"),
        (np.zeros(SIZE - 1, np.float32), f"{SIZE - 1} elements"),
        (np.zeros(2 * SIZE, np.float32)[::2], "not C-contiguous"),
        (np.zeros(SIZE, ">f4"), ">f4"),
        (np.zeros(SIZE, np.uint32), "uint32"),
        (memoryview(np.zeros(2 * SIZE, np.float32))[::2], "not C-contiguous"),
        (Tensor(np.zeros(SIZE, np.float64)), "float64"),
        (Tensor(np.zeros((2, SIZE), np.float32).T[: SIZE // 2]), "not C-contiguous"),
        (FakeTensor(np.zeros(SIZE, np.float32), device_type=2), "memory of GPU 0.* x.cpu"),
    ],
)
def test_only_float32_arrays_that_need_no_copy_are_taken(wrong, complaint):
    learner = ffdl.Learner.attach(new_server(), SOON_S)
    for call in (learner.pull, lambda a: learner.push(a, (0, 0, 1))):
        with pytest.raises(ffdl.InvalidArgument, match=complaint):
            call(wrong)


def test_an_array_to_write_must_be_writable_and_may_have_any_shape():
    learner = ffdl.Learner.attach(new_server(), SOON_S)
    weights = np.ones((10, SIZE // 10), np.float32)
    learner.pull(weights)
    assert not weights.any()
    values = np.zeros(SIZE, np.float32)
    for number, frozen in enumerate(
            (read_only(weights), memoryview(values).toreadonly(), FakeTensor(values, flags=1))):
        with pytest.raises(ffdl.InvalidArgument, match="read-only; give one that can be written"):
            learner.pull(frozen)
        learner.push(frozen, (0, number, number + 1))  # which is only read


ARRAYS = {
    "NumPy": lambda values: values,
    "DLPack": Tensor,
    "buffer": memoryview,
    "array": lambda values: array.array(values.dtype.char, values.tobytes()),
}


@pytest.mark.parametrize("make", ARRAYS.values(), ids=list(ARRAYS))
def test_whatever_is_an_array_is_taken_where_it_lies(make, name):
    """By every call of a learner, a view and a learner that averages."""
    ones = make(np.full(SIZE, -1, np.float32))  # each adds 1 to every weight
    server = new_server(name, rows_max=8)
    server.start()
    learner = ffdl.Learner.attach(server, SOON_S)
    learner.push(ones, (0, 0, 1))
    learner.push(ones, [(0, 1, 2)])
    learner.start_push(make(np.full(SIZE, -1, np.float32)), (0, 2, 3))  # kept until it has ended
    gc.collect()
    learner.finish_push(SOON_S)
    learner.flush(SOON_S)
    weights = make(np.zeros(SIZE, np.float32))
    for pull in (learner.pull, ffdl.ParameterServerView.open(name, SOON_S).pull):
        pull(weights)
        np.testing.assert_array_equal(values_of(weights), 3)
    rows = make(np.array([4, 1]))
    if make is not ARRAYS["array"]:  # which has one dimension
        learner.push(ffdl.Gradient.sparse(
            tables=[(10, rows, make(np.full((2, 3), -2, np.float32)))],
            parts=[(990, make(np.full(3, -5, np.float32)))]), (0, 3, 4))
        learner.flush(SOON_S)
        pulled = make(np.zeros((2, 3), np.float32))
        learner.pull_rows([(10, rows, pulled)])
        np.testing.assert_array_equal(values_of(pulled), 5)
        assert learner.live_weights()[990] == 8
    averages = ffdl.AveragingLearner.attach(
        new_server(rule=ffdl.UpdateRuleOptions("average")), SOON_S)
    averages.begin_mini_batch(SOON_S)
    averages.step(ones, (0, 0, 1))


def values_of(given):
    return given.values if isinstance(given, Tensor) else np.asarray(given)


def test_transfers_beside_compute():
    server = new_server()
    server.start()
    learner = ffdl.Learner.attach(server, SOON_S)
    weights = np.empty(SIZE, np.float32)
    for sample in range(5):
        learner.start_pull(weights)
        assert learner.finish_pull(SOON_S) <= sample
        learner.start_push(np.full(SIZE, -1, np.float32), ffdl.SampleRange(0, sample, sample + 1))
        assert learner.finish_push(SOON_S) in set(ffdl.PushResult)
    learner.flush(SOON_S)
    learner.start_pull(weights)
    assert learner.finish_pull(SOON_S) == server.version
    np.testing.assert_array_equal(weights, 5)


def test_transfers_of_rows_beside_compute():
    server = new_server(rows_max=8)
    server.start()
    learner = ffdl.Learner.attach(server, SOON_S)
    values = np.full((2, 3), -2, np.float32)
    learner.start_push(
        ffdl.Gradient.sparse([(10, np.array([4, 1]), values)]), [(0, 0, 2), (1, 0, 1)])
    assert learner.finish_push(SOON_S) in set(ffdl.PushResult)
    learner.flush(SOON_S)
    assert (learner.committed(0), learner.committed(1)) == (2, 1)
    pulled = np.empty((1, 3), np.float32)
    learner.start_pull_rows([(10, np.array([4]), pulled)])
    assert learner.finish_pull(SOON_S) == 1
    np.testing.assert_array_equal(pulled, 2)
    learner.gradient_slot(SOON_S)[:] = -1
    learner.start_push(ffdl.Gradient.slot(), (0, 2, 3))
    learner.finish_push(SOON_S)
    learner.flush(SOON_S)
    assert learner.live_weights()[0] == 1
    with pytest.raises(ffdl.InvalidArgument, match="a stream is given, .* has no device"):
        learner.start_pull(np.empty(SIZE, np.float32), stream=7)


def test_not_a_number_is_rejected_and_nothing_is_committed():
    learner = ffdl.Learner.attach(new_server(), SOON_S)
    gradient = np.zeros(SIZE, np.float32)
    gradient[7] = np.nan
    with pytest.raises(ffdl.InvalidArgument):
        learner.push(gradient, (0, 0, 1))
    assert learner.committed(0) == 0


def test_a_cut_continues_in_another_server(tmp_path):
    server = new_server(rule=ffdl.UpdateRuleOptions("momentum", learning_rate=0.5))
    server.start()
    learner = ffdl.Learner.attach(server, SOON_S)
    push_ones(learner, 0, 3)
    learner.flush(SOON_S)
    path = str(tmp_path / "cut")
    server.cut(SOON_S).save(path)
    cut = ffdl.ParameterServerCut.load(path)
    np.testing.assert_array_equal(cut.weights, server.weights())
    assert cut.version == server.version and len(cut.state) == 1
    assert cut.partitions[0].committed == 3
    again = new_server(rule=ffdl.UpdateRuleOptions("momentum", learning_rate=0.5), cut=cut)
    np.testing.assert_array_equal(again.weights(), server.weights())
    with pytest.raises(ffdl.NotFound):
        ffdl.ParameterServerCut.load(str(tmp_path / "none"))
    (tmp_path / "cut").write_bytes(b"torn")
    with pytest.raises(ffdl.Corrupt):
        ffdl.ParameterServerCut.load(path)


def test_failures_name_their_kind(name):
    with pytest.raises(ffdl.InvalidArgument):
        ffdl.ParameterServer.create(parameters=0)
    with pytest.raises(ffdl.NotFound):
        ffdl.ParameterServer.adopt(name)
    with pytest.raises(ffdl.NotFound):
        ffdl.remove_segment(name)
    for wrong in (-1.0, float("nan")):
        with pytest.raises(ffdl.InvalidArgument, match="timeout_s"):
            ffdl.Learner.attach(name, wrong)
    server = new_server(name, learners_max=1)
    with pytest.raises(ffdl.Conflict):
        new_server(name)
    learner = ffdl.Learner.attach(name, SOON_S)
    with pytest.raises(ffdl.Exhausted):
        ffdl.Learner.attach(name, 0)
    del server, learner


def test_attach_waits_as_long_as_it_was_told(name):
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        ffdl.Learner.attach(name, 0.35)
    assert 0.35 <= time.monotonic() - began < 30
    server = new_server(name, learners_max=1)
    server.start()
    first = ffdl.Learner.attach(name, SOON_S)
    later = threading.Timer(0.3, lambda: first.detach(SOON_S))
    later.start()
    ffdl.Learner.attach(name, SOON_S)  # longer than one piece of the wait
    later.join()


def test_other_threads_run_while_one_waits(name):
    waiting = threading.Thread(target=lambda: ffdl.Learner.attach(name, SOON_S))
    waiting.start()
    server = new_server(name)  # would not come if the waiting thread held the interpreter
    waiting.join(SOON_S)
    assert not waiting.is_alive()
    del server


def test_two_threads_in_one_learner_are_refused():
    server = new_server(synchrony=ffdl.Synchrony.BULK)  # not started: flush has to wait
    learner = ffdl.Learner.attach(server, SOON_S)
    learner.gradient_slot(SOON_S)[:] = 0
    learner.push(ffdl.Gradient.slot(), (0, 0, 1))
    inside = threading.Event()

    def wait_in_flush():
        inside.set()
        with pytest.raises(ffdl.Timeout):
            learner.flush(1.0)

    thread = threading.Thread(target=wait_in_flush)
    thread.start()
    inside.wait(SOON_S)
    refused = False
    deadline = time.monotonic() + SOON_S
    while thread.is_alive() and not refused and time.monotonic() < deadline:
        try:
            learner.stats()
        except ffdl.InvalidArgument as error:
            refused = "another thread" in str(error)
    thread.join()
    assert refused


def test_sparse_gradients_touch_only_their_rows():
    server = new_server(rows_max=8)
    server.start()
    learner = ffdl.Learner.attach(server, SOON_S)
    rows = np.array([4, 1, 4])
    values = np.arange(9, dtype=np.float32).reshape(3, 3)
    learner.push(ffdl.Gradient.sparse([(10, rows, values)], [(990, values[0])]), (0, 0, 5))
    learner.flush(SOON_S)
    expected = np.zeros(SIZE, np.float32)
    expected[10 + 3 * 4 : 10 + 3 * 5] = -(values[0] + values[2])
    expected[10 + 3 * 1 : 10 + 3 * 2] = -values[1]
    expected[990:993] = -values[0]
    np.testing.assert_array_equal(learner.live_weights(), expected)
    assert learner.committed(0) == 5
    pulled = np.empty((2, 3), np.float32)
    assert learner.pull_rows([(10, np.array([4, 0]), pulled)]) == 1
    np.testing.assert_array_equal(pulled, [-(values[0] + values[2]), [0, 0, 0]])
    with pytest.raises(ffdl.InvalidArgument, match="3 rows, one per row number"):
        learner.push(ffdl.Gradient.sparse([(10, rows, values[:2])]), (0, 5, 6))
    with pytest.raises(ffdl.InvalidArgument, match="2 rows; give .* of 3 rows"):
        learner.pull_rows([(10, rows, pulled)])
    with pytest.raises(ffdl.InvalidArgument, match="1 dimensions; give .* of 3 rows"):
        learner.push(ffdl.Gradient.sparse([(10, rows, values[0])]), (0, 5, 6))
    with pytest.raises(ffdl.InvalidArgument, match="elements of int32"):
        learner.push(ffdl.Gradient.sparse([(10, rows.astype(np.int32), values)]), (0, 5, 6))
    with pytest.raises(ffdl.InvalidArgument, match="there are"):
        learner.push(ffdl.Gradient.sparse([(10, -rows, values)]), (0, 5, 6))


@pytest.mark.parametrize("kind", ["FLOAT16", "BFLOAT16"])
def test_gradients_of_16_bits(kind):
    server = new_server(gradient_type=kind.lower())
    server.start()
    learner = ffdl.Learner.attach(server, SOON_S)
    learner.push(np.full(SIZE, 3, np.float32), (0, 0, 1))
    if kind == "FLOAT16":
        halves = [np.full(SIZE, 0.5, np.float16)]
    else:
        bits = np.full(SIZE, 0x3F00, np.uint16)
        halves = [bits, FakeTensor(bits, type_code=4)]  # DLPack's bfloat16
    for number, half in enumerate(halves, 1):
        learner.push(half, (0, number, number + 1))
    learner.push(halves[-1], [(0, 5, 7), (1, 0, 1)])
    learner.flush(SOON_S)
    np.testing.assert_array_equal(learner.live_weights(), -3 - 0.5 * (len(halves) + 1))
    assert learner.gradient_type == kind.lower()
    assert (learner.committed(0), learner.committed(1)) == (7, 1)
    with pytest.raises(ffdl.InvalidArgument, match="float32"):
        learner.push(np.zeros(SIZE, np.float64), (0, 9, 10))


def test_one_gradient_of_several_ranges():
    server = new_server(partitions=2)
    server.start()
    learner = ffdl.Learner.attach(server, SOON_S)
    learner.push(np.ones(SIZE, np.float32), [(0, 0, 5), (1, 0, 2)])
    learner.flush(SOON_S)
    assert [p.samples for p in server.stats().partitions] == [5, 2]


def wait_for_ever(ready, name):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job's is ignored
    try:
        ready.send_bytes(b"ready")
        ffdl.Learner.attach(name, float("inf"))
    except KeyboardInterrupt:
        os._exit(42)


def serve_for_ever(ready, name):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    server = new_server(name)
    try:
        ready.send_bytes(b"ready")
        server.serve()
    except KeyboardInterrupt:
        del server
        os._exit(42)


@pytest.mark.parametrize("body", [wait_for_ever, serve_for_ever])
def test_ctrl_c_ends_a_wait(body, name):
    spawn = multiprocessing.get_context("spawn")
    # A pipe, as multiprocessing's Event is not safe against a signal that comes inside set().
    ready, child_end = spawn.Pipe()
    child = spawn.Process(target=body, args=(child_end, name))
    child.start()
    assert ready.poll(60)
    child.join(0.3)  # let it come into the wait; an earlier signal must end it as well
    os.kill(child.pid, signal.SIGINT)
    child.join(SOON_S)
    if child.exitcode is None:
        child.kill()
    assert child.exitcode == 42


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_is_no_learner():
    server = new_server()
    server.start()
    learner = ffdl.Learner.attach(server, SOON_S)
    child = os.fork()
    if child == 0:
        try:
            learner.push(np.zeros(SIZE, np.float32), (0, 0, 1))
        except ffdl.Cancelled as error:
            os._exit(7 if "a fork of the one that attached; attach again" in str(error) else 2)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    push_ones(learner, 0, 1)
    learner.detach(SOON_S)
    server.stop()


def test_serve_ends_when_asked():
    server = new_server()
    stop = threading.Event()
    serving = threading.Thread(target=server.serve, args=(stop,))
    serving.start()
    learner = ffdl.Learner.attach(server, SOON_S)
    push_ones(learner, 0, 3)
    learner.detach(SOON_S)
    stop.set()
    serving.join(SOON_S)
    assert not serving.is_alive()
    np.testing.assert_array_equal(server.weights(), 3)
