"""10,007 samples, and 2 workers that become 3 in the middle of an epoch, or of which one dies there.

tests/data has it for the ledgers themselves; docs/guide/data.md shows what comes of it.
"""

from collections import Counter

import numpy as np
import pytest

import ffdl

SAMPLES, BATCH, STEPS = 10_007, 32, 78  # about half of an epoch of two


def lost_and_repeated(uses):
    return SAMPLES - len(uses), sum(uses.values()) - len(uses)


@pytest.mark.parametrize("dies", [False, True])
def test_a_loader_loses_and_repeats_none(dies):
    """Out of step, over a store; what a dead worker has used and not committed is counted."""
    store, data, uses = ffdl.open_store("mem://"), np.arange(SAMPLES), Counter()

    def loader(id, batch):
        return ffdl.data.ElasticLoader(
            data, batch_samples=batch, order=ffdl.SampleOrder.ON_DEMAND, partition_samples=256,
            store=store, id=id, num_workers=1)

    def use(one):
        if (batch := one.next()) is not None:
            uses.update(batch.tolist())

    loaders = [loader("a", BATCH), loader("b", BATCH // 2)]
    for _ in range(STEPS):
        for one in loaders:
            use(one)
            one.ledger.commit()
    if dies:
        use(loaders[1])
        loaders.pop().close()
    else:
        loaders.append(loader("c", 2 * BATCH))
    while not loaders[0].is_done:
        for one in loaders:
            use(one)
            one.ledger.commit()
    assert lost_and_repeated(uses) == (0, BATCH // 2 if dies else 0)
    assert loaders[0].ledger.repeated == (BATCH // 2 if dies else 0)


def test_what_a_static_split_loses():
    """Each rank goes on behind the batches that it has had, as its loader was saved."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from torch.utils.data import DistributedSampler

    def order(world, rank):
        return list(DistributedSampler(range(SAMPLES), world, rank, seed=3))

    had = STEPS * BATCH
    begun = Counter(number for rank in range(2) for number in order(2, rank)[:had])
    three = begun + Counter(number for rank in range(3) for number in order(3, rank)[had:])
    assert lost_and_repeated(three) == (2496, 1)
    one = begun + Counter(order(2, 0)[had:])
    assert lost_and_repeated(one) == (2507, 0)
