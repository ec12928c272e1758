"""The ledger of samples from Python."""

import numpy as np
import pytest

import ffdl


def make(**options):
    return ffdl.make_session_ledger(**({"samples": 20, "partition_samples": 8} | options))


def in_world(ledger):
    """A ledger alone hands out nothing before a session tells it of a world."""
    return ffdl.Session.open(
        ffdl.open_store("mem://"), id="a", state=[np.zeros(1)], gradients=[np.zeros(1)],
        apply=lambda: None, participants=[ledger], lease_s=15.0, gather_s=0.05)


def test_a_new_ledger():
    ledger = make(epochs=3)
    assert (ledger.epoch, ledger.committed, ledger.is_done, ledger.taken) == (0, 0, False, 0)
    assert ledger.leases == []


def test_a_step_has_one_answer():
    ledger = make(shuffle=ffdl.Shuffle.NONE)
    session = in_world(ledger)
    first = ledger.take(3)
    assert [(r.partition, r.begin, r.end) for r in first] == [(0, 0, 3)]
    assert ledger.taken == 3
    assert [(r.partition, r.begin, r.end) for r in ledger.take(2)] == [(0, 0, 2)]
    indices = ledger.sample_indices(ledger.take(3))
    assert indices.dtype == np.int64 and indices.tolist() == [0, 1, 2]
    session.end_step(ledger.taken)
    assert ledger.committed == 3
    assert ledger.sample_indices(ledger.take(2)).tolist() == [3, 4]
    assert [(r.partition, r.begin, r.end) for r in ledger.leases][0] == (0, 3, 8)


def test_one_order_for_all():
    ledger = ffdl.make_session_ledger(
        samples=20, order=ffdl.SampleOrder.GLOBAL, batch_samples=6, epochs=2,
        shuffle=ffdl.Shuffle.SAMPLES, seed=5)
    session = in_world(ledger)
    steps = []
    while not ledger.is_done:
        steps.append(ledger.sample_indices(ledger.take()).tolist())
        session.end_step(ledger.taken)
    assert [len(step) for step in steps] == [6, 6, 6, 2] * 2
    epochs = sum(steps[:4], []), sum(steps[4:], [])
    assert epochs[0] != epochs[1]
    for epoch in epochs:
        assert sorted(epoch) == list(range(20))


def test_what_became_stable_is_told():
    told = []
    ledger = make(on_stable=told.append, shuffle=ffdl.Shuffle.NONE)
    session = in_world(ledger)
    for _ in range(3):
        ledger.take(2)
        session.end_step(ledger.taken)
    session.finish()
    assert [one.step for one in told] == [1, 2, 3]
    (member, samples), = told[1].parts
    assert member.id == "a" and (samples.partition, samples.begin, samples.end) == (0, 2, 4)


def test_the_state_is_bytes():
    ledger = make()
    session = in_world(ledger)
    ledger.take(3)
    session.end_step(ledger.taken)
    saved = ledger.save()
    other = make()
    other.restore(saved)
    assert (other.committed, other.save()) == (3, saved)
    with pytest.raises(ffdl.Corrupt):
        other.restore(saved[:-1])
    assert other.save() == saved


def test_what_cannot_be_is_said():
    with pytest.raises(ffdl.InvalidArgument):
        make(samples=0)
    with pytest.raises(ffdl.InvalidArgument, match="window_partitions is 0"):
        make(shuffle=ffdl.Shuffle.SAMPLES, window_partitions=0)
    with pytest.raises(ffdl.InvalidArgument, match="batch_samples"):
        make(order=ffdl.SampleOrder.GLOBAL)
    with pytest.raises(ffdl.InvalidArgument):
        make().sample_indices([(99, 0, 1)])
