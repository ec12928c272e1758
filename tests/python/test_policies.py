"""Elastic policies, built-in and written in Python, and what they go by."""

import json
import threading

import numpy as np
import pytest

import ffdl

AT_ONCE = {"cooldown_s": 0, "confirmations": 1}


class Doubling:
    """A policy in Python: twice the workers while a metric is high, one fewer where it is not."""

    def decide(self, observation):
        high = observation.metrics["loss"].mean > 1
        workers = 2 * observation.workers if high else observation.workers - 1
        return ffdl.SizeDecision(workers, f"at {observation.at_s:.0f} s")


def trace_of(values):
    return [
        ffdl.Observation(
            at_s=10.0 * i, workers=2, metrics={"loss": ffdl.MetricValue(v, members=1)}
        )
        for i, v in enumerate(values)
    ]


def test_built_in_policies_decide():
    seen = ffdl.Observation(
        at_s=3600,
        workers=2,
        samples_per_s=140,
        speeds=[ffdl.StepMeasurement(1, batch=50, step_s=0.5, age_s=5)],
        idle_workers=3,
        metrics={"queue_depth": ffdl.MetricValue(45), "noise_scale": ffdl.MetricValue(128, 2)},
    )
    for policy, workers in [
        (ffdl.efficiency_policy(), 1),
        (ffdl.efficiency_policy(trusted_for_s=4), 3),
        (ffdl.queue_policy(per_worker=10), 5),
        (ffdl.noise_policy(samples_per_worker=16), 4),
        (ffdl.schedule_policy(sizes=[(0, 2), (12 * 3600, 7)]), 2),
        (ffdl.idle_policy(keep_idle=1), 4),
    ]:
        decision = policy.decide(seen)
        assert decision.workers == workers, decision
        assert decision.reason
    with pytest.raises(ffdl.InvalidArgument, match="per_worker"):
        ffdl.queue_policy(per_worker=0)
    with pytest.raises(ffdl.InvalidArgument, match="max_workers"):
        ffdl.SteadyOptions(min_workers=3, max_workers=2)


def test_a_policy_in_python_is_replayed():
    steady = ffdl.SteadyOptions(max_workers=8, **AT_ONCE)
    replay = ffdl.replay_policy(trace_of([2, 2, 0.5, 0.5, 2]), Doubling(), steady)
    assert [point.workers for point in replay.points] == [4, 8, 7, 6, 8]
    assert [point.at_s for point in replay.points] == [0, 10, 20, 30, 40]
    assert "at 20 s" in replay.points[2].reason
    assert (replay.changes, replay.reversals) == (5, 2)
    assert replay.oscillation == 2 / 5
    assert replay.mean_workers == (4 + 8 + 7 + 6) / 4


def test_what_a_policy_raises_comes_out():
    class Fails:
        def decide(self, observation):
            raise ZeroDivisionError

    class Wrong:
        def decide(self, observation):
            return 3

    with pytest.raises(ZeroDivisionError):
        ffdl.replay_policy(trace_of([1]), Fails())
    with pytest.raises(TypeError, match="return a SizeDecision"):
        ffdl.replay_policy(trace_of([1]), Wrong())
    with pytest.raises(TypeError, match="decide"):
        ffdl.replay_policy(trace_of([1]), lambda *_: 3)


def test_a_policy_comes_from_a_file(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text("{policy: queue, per_worker: 10, metric: loss, cooldown_s: 1.5}")
    loaded = ffdl.load_policy(file)
    assert loaded.steady.cooldown_s == 1.5
    policy = loaded.policy
    del loaded
    assert policy.decide(trace_of([31])[0]).workers == 4
    with pytest.raises(ffdl.NotFound):
        ffdl.load_policy(tmp_path / "none")


def train(session, gradient, until):
    while not until():
        gradient[:] = 1
        session.end_step(4)
    session.finish()


def open_session(store, participants):
    gradient = np.zeros(2, np.float32)
    session = ffdl.Session.open(
        store, id="a", job="j", state=[np.zeros(2, np.float32)], gradients=gradient,
        apply=lambda: None, participants=participants, lease_s=15.0, gather_s=0.05)
    return session, gradient


def supervisors_records(store, wanted):
    """What `ffdl run` would have written of a job of one worker, which may have four."""
    workers = [{"id": f"worker-{i}", "phase": "idle", "process": 1, "restarts": 0}
               for i in range(4)]
    for one in workers[:wanted]:
        one["phase"] = "running"
    store.put("ffdl/j/launch/wanted", str(wanted))
    store.put("ffdl/j/launch/nodes/0", json.dumps(
        {"node": 0, "process": 1, "min_workers": 1, "max_workers": 4, "workers": workers}))


def test_a_meter_tells_a_follower_and_its_log_is_a_trace(tmp_path):
    store = ffdl.open_store("mem://")
    log = tmp_path / "sizes.jsonl"
    meter = ffdl.StepMetrics.create(
        store, job="j", steps=2, metrics={"loss": lambda: 0.5, "nothing": lambda: None})
    supervisors_records(store, 1)
    session, gradient = open_session(store, [meter])
    seen = []

    class Mine:
        def decide(self, observation):
            seen.append(observation)
            return ffdl.SizeDecision(1, "enough")

    steady = ffdl.SteadyOptions(**AT_ONCE)
    with ffdl.PolicyFollower.start(
            Mine(), store, job="j", steady=steady, interval_s=0, log_file=log) as follower:
        train(session, gradient, lambda: follower.decisions >= 2)
    assert follower.changes == 0
    assert seen[0].workers == 1
    assert seen[0].metrics["loss"].sum == 0.5
    assert "nothing" not in seen[0].metrics
    assert seen[0].samples_per_s > 0
    trace = ffdl.load_policy_trace(log)
    assert len(trace) == follower.decisions
    assert trace[0].samples_per_s == seen[0].samples_per_s


def test_what_a_followed_policy_raises_comes_out_at_its_end():
    store = ffdl.open_store("mem://")
    meter = ffdl.StepMetrics.create(store, job="j", steps=1)
    supervisors_records(store, 1)
    session, gradient = open_session(store, [meter])
    asked = threading.Event()

    class Fails:
        def decide(self, observation):
            asked.set()
            raise ZeroDivisionError

    follower = ffdl.PolicyFollower.start(Fails(), store, job="j", interval_s=0)
    train(session, gradient, asked.is_set)
    with pytest.raises(ZeroDivisionError):
        follower.stop()
    follower.stop()


def test_what_a_metric_raises_comes_out_of_the_session():
    store = ffdl.open_store("mem://")
    meter = ffdl.StepMetrics.create(store, metrics={"loss": lambda: 1 / 0})
    session, gradient = open_session(store, [meter])
    with pytest.raises(ZeroDivisionError):
        session.end_step(1)


def test_a_watch_replaces():
    store = ffdl.open_store("mem://")
    replacement = ffdl.StragglerWatch.create_replacing(store, job="j", factor=1.5, steps=3)
    session, gradient = open_session(store, [replacement])
    session.end_step(1)
    assert replacement.stragglers == []
    session.finish()
    with pytest.raises(ffdl.InvalidArgument, match="factor"):
        ffdl.StragglerWatch.create_replacing(store, factor=1)
    with pytest.raises(ffdl.InvalidArgument, match="ffdl run"):
        ffdl.StepMetrics.create()
