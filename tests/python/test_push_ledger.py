"""The ledger of a parameter server's learners, from Python."""

import multiprocessing
import os
import signal
import threading

import numpy as np
import pytest

import ffdl
from ffdl.data import ElasticLoader, parts

DATA = {"samples": 100, "partition_samples": 8, "epochs": 2}
SOON_S = 120.0  # a bound for hangs


def new_server(name="", **options):
    """Its weights count how often each sample was used."""
    server = ffdl.ParameterServer.create(
        name=name, parameters=100, partitions=13,
        rule=ffdl.UpdateRuleOptions("sgd", learning_rate=1.0), **options)
    server.start()
    return server


@pytest.fixture
def server():
    server = new_server()
    yield server
    server.stop()


def ledger_of(learner, **options):
    return ffdl.make_push_ledger(learner, **(DATA | options))


def gradient_of(indices):
    gradient = np.zeros(100, np.float32)
    np.add.at(gradient, indices, -1)
    return gradient


def push(learner, ledger, count=3):
    """One mini-batch; how many samples it has."""
    ranges = ledger.take(count)
    if ranges:
        learner.push(gradient_of(ledger.sample_indices(ranges)), ranges)
    return parts.count([(one.partition, one.begin, one.end) for one in ranges])


def train(learner, ledger):
    while not ledger.is_done:
        if push(learner, ledger) == 0:
            ledger.wait(SOON_S)


def audit(logs):
    found = ffdl.audit_commit_logs([str(log) for log in logs], complete=True)
    assert (found.problems, found.first_problems) == (0, [])
    return found.epochs, found.samples, found.missing, found.repeated


@pytest.mark.parametrize("synchrony", [ffdl.Synchrony.ASYNC, ffdl.Synchrony.BULK])
def test_learners_share_and_their_logs_are_audited(synchrony, tmp_path):
    server = new_server(synchrony=synchrony)

    def work(id):
        learner = ffdl.Learner.attach(server, SOON_S)
        log = ffdl.CommitLog.open(str(tmp_path / id), **DATA)
        ledger = ledger_of(learner, on_stable=log.write, shuffle=ffdl.Shuffle.SAMPLES, seed=3)
        while not ledger.is_done:
            ranges = ledger.take(3)
            if not ranges:
                ledger.wait(SOON_S)
                continue
            learner.gradient_slot(SOON_S)[:] = gradient_of(ledger.sample_indices(ranges))
            learner.push(ffdl.Gradient.slot(), ranges)
        learner.detach(SOON_S)

    threads = [threading.Thread(target=work, args=(id,)) for id in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.stop()
    if synchrony == ffdl.Synchrony.ASYNC:  # otherwise the mean of each round is in the weights
        assert server.weights().tolist() == [2] * 100
    assert audit(tmp_path / id for id in "abc") == (2, 200, 0, 0)


def die_in_the_middle(name, log):
    learner = ffdl.Learner.attach(name, SOON_S)
    ledger = ledger_of(learner, on_stable=ffdl.CommitLog.open(log, **DATA).write)
    for _ in range(5):
        push(learner, ledger)
    learner.gradient_slot()[:] = gradient_of(ledger.sample_indices(ledger.take(3)))
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_learners_samples_go_to_others(name, tmp_path):
    server = new_server(name)
    learner = ffdl.Learner.attach(server, SOON_S)
    ledger = ledger_of(learner, on_stable=ffdl.CommitLog.open(str(tmp_path / "b"), **DATA).write)
    child = multiprocessing.get_context("spawn").Process(
        target=die_in_the_middle, args=(name, str(tmp_path / "a")))
    child.start()
    child.join(SOON_S)
    assert child.exitcode == -signal.SIGKILL
    train(learner, ledger)
    assert ledger.epoch == 2
    learner.detach(SOON_S)
    server.stop()
    assert server.weights().tolist() == [2] * 100
    assert audit([tmp_path / "a", tmp_path / "b"]) == (2, 200, 0, 0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the server has threads
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("cut", [parts.whole, parts.of_one_range])
def test_a_loader_reads_by_it(server, workers, cut):
    learner = ffdl.Learner.attach(server, SOON_S)
    assert learner.partitions == 13
    with ElasticLoader(
            np.arange(100), order=ffdl.SampleOrder.ON_DEMAND, batch_samples=7, partition_samples=8,
            epochs=2, num_workers=workers, learner=learner) as loader:
        lengths = set()
        for ranges, batch in loader.all_parts(cut, SOON_S):
            lengths.add(len(ranges))
            assert loader.taken >= len(batch) == parts.count(ranges)
            learner.push(gradient_of(batch), ranges)
        assert (max(lengths) > 1) == (cut is parts.whole)
        assert loader.is_done and loader.taken == 0
    learner.detach(SOON_S)
    server.stop()
    assert server.weights().tolist() == [2] * 100


def test_a_loader_needs_no_common_step(server):
    learner = ffdl.Learner.attach(server, SOON_S)
    with pytest.raises(ffdl.InvalidArgument, match="over a learner"):
        ElasticLoader(np.arange(100), batch_samples=7, learner=learner)


def test_what_a_ledger_refuses(server):
    learner = ffdl.Learner.attach(server, SOON_S)
    with pytest.raises(ffdl.InvalidArgument, match="the server has 13"):
        ledger_of(learner, partition_samples=4)
    ledger = ledger_of(learner)
    assert (ledger.epoch, ledger.committed, ledger.taken, ledger.leases) == (0, 0, 0, [])
    with pytest.raises(ffdl.InvalidArgument, match="already has a ledger"):
        ledger_of(learner)
    learner.detach(SOON_S)
    with pytest.raises(ffdl.Cancelled, match="detached"):
        ledger.take(3)


def test_what_it_holds_goes_back_with_it(server):
    learner, other = (ffdl.Learner.attach(server, SOON_S) for _ in range(2))
    ledger, waiting = ledger_of(learner, samples=8), ledger_of(other, samples=8)
    assert push(learner, ledger) == 3
    learner.flush(SOON_S)
    assert waiting.take(3) == []
    with pytest.raises(ffdl.Timeout):
        waiting.wait(0)
    del ledger
    waiting.wait(SOON_S)
    assert waiting.take()[0].begin == 3


def test_it_may_go_while_a_push_is_under_way(server):
    told = []
    learner, other = (ffdl.Learner.attach(server, SOON_S) for _ in range(2))
    ledger = ledger_of(learner, samples=8, epochs=1, on_stable=told.append)
    ranges = ledger.take()
    learner.start_push(gradient_of(range(8)), ranges[0])
    with pytest.raises(ffdl.InvalidArgument, match="finish_push"):
        ledger.take()
    del ledger
    learner.finish_push(SOON_S)
    learner.flush(SOON_S)
    assert [part[1].end for step in told for part in step.parts] == [8]
    waiting = ledger_of(other, samples=8, epochs=1)
    waiting.wait(0)
    assert waiting.is_done


def test_it_may_go_during_another_threads_call():
    server = ffdl.ParameterServer.create(parameters=100, partitions=1)
    learner, other = (ffdl.Learner.attach(server, SOON_S) for _ in range(2))
    ledger = ledger_of(learner, samples=8)
    push(learner, ledger)
    thread = threading.Thread(target=learner.flush, args=(SOON_S,))
    thread.start()
    is_in_the_call = False
    while not is_in_the_call:
        try:
            assert not ledger.is_done
        except ffdl.InvalidArgument:
            is_in_the_call = True
    del ledger
    server.start()
    thread.join()
    waiting = ledger_of(other, samples=8)
    assert waiting.take() == []
    learner.stats()  # the next call of its learner gives back what it held
    waiting.wait(SOON_S)
    assert waiting.take()[0].begin == 3
    server.stop()


def test_what_its_callback_raises_comes_out_of_the_push(server):
    steps = []

    def tell(step):
        steps.append(step)
        raise RuntimeError("no log")

    learner = ffdl.Learner.attach(server, SOON_S)
    ledger = ledger_of(learner, on_stable=tell)
    with pytest.raises(RuntimeError, match="no log"):
        push(learner, ledger)
    assert ledger.taken == 0
    push(learner, ledger)
    learner.flush(SOON_S)
    assert len(steps) == 1
    del ledger
    ledger = ledger_of(learner, on_stable=steps.append)  # tells the newest first
    push(learner, ledger)
    learner.detach(SOON_S)
    assert [step.parts[0][1].begin for step in steps] == [0, 3, 6]
