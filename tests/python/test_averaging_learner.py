"""Elastic and model averaging from Python."""

import threading

import numpy as np
import pytest

import ffdl

SIZE = 1000
SOON_S = 120.0  # a bound for hangs
DESCENT = ffdl.UpdateRuleOptions("sgd", learning_rate=0.5)


def new_server(name="", **options):
    rule = ffdl.UpdateRuleOptions("average")
    return ffdl.ParameterServer.create(name=name, parameters=SIZE, rule=rule, **options)


def descend(learner, target, begin, end):
    """Mini-batches of one sample whose loss is half the squared distance to `target`."""
    for sample in range(begin, end):
        model = learner.begin_mini_batch(SOON_S)
        learner.step(model - np.float32(target), (learner.slot, sample, sample + 1))


def test_an_exchange_moves_both_sides_and_commits_its_period(name):
    server = new_server(name)
    server.start()
    learner = ffdl.AveragingLearner.attach(name, SOON_S, rule=DESCENT, period=2, elasticity=0.25)
    descend(learner, 8, 0, 3)
    assert learner.committed(0) == 2
    model = learner.begin_mini_batch(SOON_S)
    # Two halvings of the distance, an exchange of a quarter, one more halving.
    np.testing.assert_array_equal(model, 8 - (8 - 0.75 * 6) / 2)
    with pytest.raises(ValueError, match="read-only"):
        model[0] = 1
    learner.flush(SOON_S)
    assert learner.committed(0) == 3
    stats = learner.stats()
    assert (stats.mini_batches, stats.exchanges, stats.skipped) == (3, 2, 0)
    assert "exchanges=2" in repr(stats)
    learner.detach(SOON_S)
    assert server.stats().partitions[0].samples == 3


def test_bulk_with_elasticity_one_is_the_mean_of_the_models():
    server = new_server(synchrony=ffdl.Synchrony.BULK)
    learners = [
        ffdl.AveragingLearner.attach(server, SOON_S, rule=DESCENT, period=2, elasticity=1)
        for _ in range(2)
    ]
    server.start()
    failures = []

    def train(learner, target):
        try:
            descend(learner, target, 0, 8)
            learner.detach(SOON_S)
        except Exception as failure:
            failures.append(failure)

    threads = [
        threading.Thread(target=train, args=(learner, target))
        for learner, target in zip(learners, (4, 12), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    # Each round takes three quarters of the distance to the mean of the targets.
    np.testing.assert_array_equal(server.weights(), 8 - 8 * 0.25**4)


def test_a_step_needs_its_beginning():
    learner = ffdl.AveragingLearner.attach(new_server(), SOON_S)
    with pytest.raises(ffdl.InvalidArgument, match="begin_mini_batch"):
        learner.step(np.zeros(SIZE, np.float32), (0, 0, 1))
    assert learner.parameters == SIZE


def test_options_and_servers_that_do_not_fit_are_refused():
    server = new_server()
    for options, complaint in (({"period": 0}, "period"), ({"elasticity": 1.5}, "elasticity")):
        with pytest.raises(ffdl.InvalidArgument, match=complaint):
            ffdl.AveragingLearner.attach(server, SOON_S, **options)
    descends = ffdl.ParameterServer.create(parameters=SIZE, rule=DESCENT)
    with pytest.raises(ffdl.InvalidArgument, match="rule is 'sgd'"):
        ffdl.AveragingLearner.attach(descends, SOON_S)
