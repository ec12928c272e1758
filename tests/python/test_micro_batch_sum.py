"""Sums over micro-batches, which are the same bits on any number of ranks."""

import numpy as np
import pytest
from ranks import SOON_S, local_ranks, on_threads, shared_ranks

import ffdl

MICRO_BATCHES = 8


def gradient_of(micro_batch):
    return np.random.default_rng(micro_batch).normal(size=5000).astype(np.float32)


def steps(communicator, shares, **options):
    """What two steps give at this rank."""
    gradient = np.empty(5000, np.float32)
    total = ffdl.MicroBatchSum(communicator, gradient, shares=shares, **options)
    results = []
    for step in range(2):
        for i in range(total.begin, total.end):
            gradient[:] = gradient_of(step * MICRO_BATCHES + i)
            total.add(gradient)
        total.finish(gradient, SOON_S)
        results.append(gradient.copy())
    return results


@pytest.mark.parametrize(
    "shares", [[8], [4, 4], [3, 3, 2], [2, 2, 2, 2], [7, 0, 1]], ids=lambda shares: str(shares)
)
@pytest.mark.parametrize("make", [local_ranks, shared_ranks])
def test_the_bits_do_not_depend_on_the_ranks(make, shares):
    alone = steps(local_ranks(1)[0], [MICRO_BATCHES])
    np.testing.assert_allclose(
        alone[0], np.mean([gradient_of(i) for i in range(MICRO_BATCHES)], axis=0), atol=1e-6
    )
    for results in on_threads(make(len(shares)), lambda c: steps(c, shares)):
        for expected, result in zip(alone, results, strict=True):
            assert expected.tobytes() == result.tobytes()


def test_shares_are_as_even_as_possible():
    assert ffdl.even_shares(8, 3) == [3, 3, 2]
    assert ffdl.even_shares(2, 4) == [1, 1, 0, 0]


def test_a_list_is_one_gradient_and_a_weight_divides_it():
    def body(communicator):
        layers = [np.ones(3), np.full((2, 2), 5.0)]
        total = ffdl.MicroBatchSum(communicator, layers, shares=[1, 1])
        total.add(layers)
        out = np.zeros(7)
        total.finish(out, weight=4.0)
        return out

    for out in on_threads(local_ranks(2), body):
        np.testing.assert_array_equal(out, [0.5] * 3 + [2.5] * 4)


def test_ranks_that_disagree_are_told():
    def body(communicator):
        shares = [1, 2] if communicator.rank == 0 else [2, 1]
        with pytest.raises(ffdl.InvalidArgument, match="rank 1"):
            ffdl.MicroBatchSum(communicator, np.ones(4), shares=shares)

    on_threads(local_ranks(2), body)


def test_a_wrong_call_changes_nothing():
    total = ffdl.MicroBatchSum(local_ranks(1)[0], np.ones(4), shares=[1], op=ffdl.ReduceOp.SUM)
    with pytest.raises(ffdl.InvalidArgument):
        total.add(np.ones(5))
    with pytest.raises(ffdl.InvalidArgument):
        total.finish(np.zeros(4))  # before its micro-batch
    total.add(np.full(4, 9.0))
    total.clear()
    total.add(np.full(4, 3.0))
    out = np.zeros(4)
    total.finish(out)
    np.testing.assert_array_equal(out, 3.0)


def test_it_keeps_its_communicator():
    total = ffdl.MicroBatchSum(local_ranks(1)[0], np.ones(4), shares=[1])
    out = np.zeros(4)
    total.add(np.ones(4))
    total.finish(out)
    np.testing.assert_array_equal(out, 1.0)
