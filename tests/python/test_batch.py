"""What participants beside the ledger find out, and the batch of any number of workers."""

import json
import threading

import numpy as np
import pytest
from ranks import on_threads

import ffdl

PATIENT = {"lease_s": 15.0, "gather_s": 0.05, "min_workers": 2}


def test_the_noise_of_two_members():
    store = ffdl.open_store("mem://")

    def train(rank):
        weights = np.zeros(3, np.float32)
        gradient = np.zeros(3, np.float32)

        def descend():
            weights[:] -= gradient
            gradient[:] = np.nan  # as one that clips in place

        noise = ffdl.GradientNoise.create(gradients=[gradient], interval=1)
        session = ffdl.Session.open(
            store,
            id=str(rank),
            state=[weights],
            gradients=gradient,
            apply=descend,
            participants=[noise],
            **PATIENT,
        )
        for _ in range(3):
            gradient[:] = [1, 0, 0] if rank == 0 else [3, 0, 0]
            session.end_step(1)
        session.finish()
        return noise.noise_scale

    first, second = on_threads(range(2), train)
    assert repr(first) == repr(second)
    assert first.measurements == 3
    # The mean is 2, the variance between the two samples is 2.
    assert first.variance == pytest.approx(2)
    assert first.squared_norm == pytest.approx(3)
    assert first.value == pytest.approx(2 / 3)


def test_gradients_that_have_no_norm_are_refused():
    with pytest.raises(ffdl.InvalidArgument, match="int64"):
        ffdl.GradientNoise.create(gradients=[np.zeros(2, np.int64)])
    with pytest.raises(ffdl.InvalidArgument, match="interval"):
        ffdl.GradientNoise.create(gradients=[np.zeros(2)], interval=0)


def test_the_batch_of_any_number_of_workers():
    keep = ffdl.BatchRule(samples=64)
    assert sum(ffdl.step_batch(keep, rank, 3).share for rank in range(3)) == 64
    grow = ffdl.BatchRule(samples=32, workers=1, learning_rate=ffdl.LearningRateRule.ADA_SCALE)
    noise = ffdl.NoiseScale(variance=32, squared_norm=1, measurements=1)
    batch = ffdl.step_batch(grow, 0, 4, noise)
    assert (batch.samples, batch.share, batch.micro_batches) == (128, 32, 1)
    assert batch.learning_rate_factor == batch.progress == noise.gain(32, 128) == 2 / 1.25
    with pytest.raises(ffdl.InvalidArgument, match="rank 2 of 2 workers"):
        ffdl.step_batch(keep, 2, 2)


def test_a_slow_member_is_found_by_all():
    store = ffdl.open_store("mem://")
    told = [[], []]

    def train(rank):
        weights = np.zeros(2, np.float32)
        watch = ffdl.StragglerWatch.create(factor=1.5, steps=3, on_straggler=told[rank].append)
        session = ffdl.Session.open(
            store,
            id="ab"[rank],
            state=[weights],
            gradients=np.zeros(2, np.float32),
            apply=lambda: None,
            participants=[watch],
            **PATIENT,
        )
        while not watch.stragglers:
            if rank == 1:
                threading.Event().wait(0.3)  # far slower work than a busy machine makes of none
            session.end_step(1)
        found = watch.stragglers
        session.finish()
        return found

    found = on_threads(range(2), train)
    assert repr(found[0]) == repr(found[1])
    assert found[0][0].member.id == "b"
    assert found[0][0].factor > 1.5
    assert [slow.member.id for slow in told[0]] == ["b"]
    assert repr(told[0]) == repr(told[1])


def test_what_a_callback_raises_comes_out_of_the_session():
    store = ffdl.open_store("mem://")
    failure = []

    def refuse(straggler):
        raise ZeroDivisionError

    def train(rank):
        watch = ffdl.StragglerWatch.create(
            steps=1, on_straggler=refuse if rank == 0 else None
        )
        session = ffdl.Session.open(
            store,
            id="ab"[rank],
            state=[np.zeros(2, np.float32)],
            gradients=np.zeros(2, np.float32),
            apply=lambda: None,
            participants=[watch],
            **(PATIENT | {"min_workers": 1}),
        )
        try:
            while not failure:
                if rank == 1:
                    threading.Event().wait(0.02)
                session.end_step(1)
        except ZeroDivisionError as error:
            failure.append(error)

    on_threads(range(2), train)
    assert failure


def train_in_parts(parts):
    """The weights after three steps of two members, one of whom gives its share in parts."""
    store = ffdl.open_store("mem://")
    data = np.arange(24, dtype=np.float32).reshape(8, 3)  # of a step; no sum of them is rounded

    def train(rank):
        weights = np.zeros(3, np.float32)
        gradient = np.zeros(3, np.float32)

        def descend():
            weights[:] += gradient

        session = ffdl.Session.open(store, id=str(rank), state=[weights], gradients=gradient,
                                    apply=descend, **PATIENT)
        while session.step < 3:
            share = data[:4] if rank == 0 else data[4:]
            for part in np.array_split(share, parts if rank == 0 else 1):
                gradient[:] = part.mean(axis=0)
                session.add_micro_batch(len(part))
            session.end_step(len(share))
        with pytest.raises(ffdl.InvalidArgument, match="micro-batches with 4 samples were added"):
            session.add_micro_batch(4)
            session.end_step(5)
        session.end_step(0)
        session.finish()
        return weights

    first, second = on_threads(range(2), train)
    assert first.tobytes() == second.tobytes()
    return first


def test_a_share_in_parts_is_the_share():
    whole = train_in_parts(1)
    assert whole.tolist() == [31.5, 34.5, 37.5]
    for parts in (2, 4):
        assert train_in_parts(parts).tobytes() == whole.tobytes()


def train_virtual(members, steps):
    """The weights after so many steps of eight micro-batches, the last of each epoch short."""
    store = ffdl.open_store("mem://")
    data = np.random.default_rng(5).standard_normal((61, 3)).astype(np.float32)

    def train(rank):
        weights = np.zeros(3, np.float32)
        gradient = np.zeros(3, np.float32)

        def descend():
            weights[:] -= 0.1 * gradient

        ledger = ffdl.make_session_ledger(
            samples=len(data),
            epochs=0,
            shuffle=ffdl.Shuffle.SAMPLES,
            order=ffdl.SampleOrder.GLOBAL,
            batch_samples=24,
            micro_batch_samples=3,
        )
        session = ffdl.Session.open(
            store,
            id=str(rank),
            state=[weights],
            gradients=gradient,
            apply=descend,
            participants=[ledger],
            micro_batch_shares=ledger,
            micro_batch_samples=3,
            **(PATIENT | {"min_workers": members}),
        )
        while session.step < steps:
            assert sum(ledger.shares) == 8
            mine = ledger.sample_indices(ledger.take())
            for begin in range(0, len(mine), 3):
                batch = data[mine[begin : begin + 3]]
                gradient[:] = np.mean(np.tanh(batch + weights), axis=0)
                session.add_micro_batch(len(batch))
            session.end_step(ledger.taken)
        session.finish()
        return weights

    trained = on_threads(range(members), train)
    for weights in trained[1:]:
        assert weights.tobytes() == trained[0].tobytes()
    return trained[0]


def test_micro_batches_have_the_same_bits_whatever_the_number_of_members():
    alone = train_virtual(1, 9)
    assert np.any(alone != 0)
    for members in (2, 3):
        assert train_virtual(members, 9).tobytes() == alone.tobytes()


def test_the_shares_are_those_of_a_participant():
    with pytest.raises(TypeError, match="among the participants"):
        ffdl.Session.open(
            ffdl.open_store("mem://"),
            id="a",
            state=[np.zeros(2)],
            gradients=np.zeros(2),
            apply=lambda: None,
            micro_batch_shares=ffdl.make_session_ledger(samples=8),
        )


def test_participants_are_of_ffdl():
    with pytest.raises(TypeError, match="StepParticipants"):
        ffdl.Session.open(
            ffdl.open_store("mem://"),
            id="a",
            state=[np.zeros(2)],
            gradients=np.zeros(2),
            apply=lambda: None,
            participants=["watch"],
        )


def test_a_job_follows_the_batch_that_the_autoscaler_wants():
    store = ffdl.open_store("mem://")
    answer = {"job": "job", "place": 1, "workers": 2, "batch": 24, "dropped": False, "reason": ""}
    store.put("ffdl-jobs/answers", json.dumps([answer]))

    def train(rank):
        ledger = ffdl.make_session_ledger(samples=10_000, partition_samples=1000, epochs=0)
        batch = ffdl.BatchSizeController.create(8)
        link = ffdl.AutoscalerClient.open(store, "job", interval_s=0.005)
        session = ffdl.Session.open(
            store,
            id="ab"[rank],
            state=[np.zeros(2, np.float32)],
            gradients=np.zeros(2, np.float32),
            apply=lambda: None,
            participants=[batch, ledger],
            **PATIENT,
        )
        taken = []
        end = None
        while end is None or session.step < end:
            ledger.take(batch.share)
            taken.append((session.step, ledger.taken))
            session.end_step(ledger.taken)
            if session.world.rank == 0:
                if link.wanted.batch:
                    batch.want(link.wanted.batch, link.wanted.workers)
            if end is None and batch.samples == 24:
                end = session.step + 5
        session.finish()
        return taken

    first, second = map(dict, on_threads(range(2), train))
    assert first.keys() == second.keys()
    batches = [first[step] + second[step] for step in sorted(first)]
    assert set(batches) <= {8, 24} and batches == sorted(batches)  # whole steps of one, then of the other
    assert batches[-5:] == [24] * 5
    with pytest.raises(ffdl.InvalidArgument, match="give its name"):
        ffdl.AutoscalerClient.open(store, "")
    with pytest.raises(ffdl.InvalidArgument, match="give 1 to"):
        ffdl.BatchSizeController.create(0)
