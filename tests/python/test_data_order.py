"""Windows of tokens, and orders by samplers of a user's own."""

import numpy as np
import pytest
from ranks import on_threads
from test_data_loader import open_session, run

import ffdl
from ffdl.data import ElasticLoader, windows

ON_DEMAND = ffdl.SampleOrder.ON_DEMAND


def tokens(count=1000, dtype=np.uint16):
    return np.arange(count, dtype=dtype)


def test_a_window_is_tokens_and_those_that_follow():
    data = windows(tokens(), 8)
    for number in (0, 1, 12345, len(data) - 1):
        x, y = data[number]
        assert x.dtype == y.dtype == np.int64
        assert x.tolist() == list(range(x[0], x[0] + 8))
        assert y.tolist() == (x + 1).tolist()


def test_random_windows_are_spread_evenly_and_have_all_places():
    data = windows(tokens(20), 4)
    begins = data.begins(np.arange(16000, dtype=np.uint64))
    counts = np.bincount(begins)
    assert len(counts) == 16  # the last window ends with the last token
    assert counts.min() > 850 and counts.max() < 1150  # 1000 each, and five standard deviations


def test_the_seed_and_the_number_decide_on_a_window():
    numbers = np.arange(100, dtype=np.uint64)
    one, same, other = (windows(tokens(), 8, seed=seed).begins(numbers) for seed in (5, 5, 6))
    assert one.tolist() == same.tolist()
    assert (one == other).mean() < 0.1
    assert (one[1:] == other[:-1]).mean() < 0.1  # nor is one the other, shifted


def test_windows_at_a_stride_have_each_token_once():
    data = windows(tokens(30), 7, stride=7)
    assert len(data) == 4
    assert np.concatenate([data[i][1] for i in range(4)]).tolist() == list(range(1, 29))
    assert len(windows(tokens(30), 7, stride=1)) == 23


@pytest.mark.parametrize("workers", [0, 2])
def test_random_windows_end_no_epoch(workers, tmp_path):
    path = tmp_path / "train.bin"
    tokens().tofile(path)
    data = windows(np.memmap(path, dtype=np.uint16, mode="r"), 8)
    loader = ElasticLoader(data, batch_samples=12, steps=50, num_workers=workers)
    batches = run(loader)
    assert [x.shape for x, _ in batches] == [(12, 8)] * 50
    begins = np.concatenate([x[:, 0] for x, _ in batches])
    assert len(np.unique(begins)) > 400  # of 992 places; 449 are to be expected
    assert loader.ledger.epoch == 0


def test_two_workers_have_the_windows_of_one():
    data = windows(tokens(), 8)

    def begins_of(threads):
        store = ffdl.open_store("mem://")

        def work(rank):
            loader = ElasticLoader(data, batch_samples=12, steps=20)
            session = open_session(loader, store, f"w{rank}", min_workers=threads)
            return [x[:, 0] for x, _ in run(loader, session)]

        return np.sort(np.concatenate(sum(on_threads(range(threads), work), [])))

    assert begins_of(1).tolist() == begins_of(2).tolist()


@pytest.mark.parametrize("tokens, options, message", [
    (np.zeros((3, 3)), {}, r"shape \[3, 3\]"),
    (np.zeros(4), {}, r"shape \[4\]"),
    ([1, 2, 3, 4, 5, 6], {}, "a 'list'"),
    (np.zeros(9), {"stride": 0}, "stride is 0"),
    (np.zeros(9), {"stride": 2, "samples": 3}, "samples 3"),
    (np.zeros(9), {"samples": 0}, "samples is 0"),
])
def test_wrong_windows(tokens, options, message):
    with pytest.raises(ffdl.InvalidArgument, match=message):
        windows(tokens, 4, **options)


def test_tensors_have_windows_of_tensors():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    data = windows(torch.arange(100, dtype=torch.int32), 8)
    x, y = run(ElasticLoader(data, batch_samples=3, steps=1))[0]
    assert x.dtype == torch.int64 and x.shape == (3, 8)
    assert torch.equal(y, x + 1)


# --- samplers ------------------------------------------------------------------------------------


class Halves:
    """Even samples in a random order, each twice; others in each epoch."""

    def __init__(self, samples=20):
        self._samples = samples

    def __iter__(self):
        even = np.arange(0, self._samples, 2)
        return iter(np.random.permutation(np.concatenate([even, even])).tolist())


def numbers_of(loader, session=None):
    return [batch.tolist() for batch in run(loader, session)]


@pytest.mark.parametrize("order", [{}, {"order": ON_DEMAND, "partition_samples": 7}])
@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_has_the_samples_of_its_sampler(workers, order):
    loader = ElasticLoader(np.arange(20), batch_samples=5, epochs=3, sampler=Halves(),
                           num_workers=workers, **order)
    taken = sum(numbers_of(loader), [])
    epochs = [taken[i : i + 20] for i in (0, 20, 40)]
    for epoch in epochs:
        assert sorted(epoch) == sorted([*range(0, 20, 2), *range(0, 20, 2)])
    if not order:
        assert epochs[0] != epochs[1] != epochs[2]


def test_processes_that_load_have_the_same_order():
    taken = [numbers_of(ElasticLoader(np.arange(20), batch_samples=5, epochs=4, sampler=Halves(),
                                      num_workers=workers)) for workers in (0, 3)]
    assert taken[0] == taken[1]


def test_another_seed_is_another_order():
    taken = [numbers_of(ElasticLoader(np.arange(20), batch_samples=5, sampler=Halves(), seed=seed))
             for seed in (1, 1, 2)]
    assert taken[0] == taken[1] != taken[2]


def test_a_sampler_leaves_the_generators_alone():
    np.random.seed(3)
    expected = np.random.randint(1 << 30)
    np.random.seed(3)
    loader = ElasticLoader(np.arange(20), batch_samples=5, sampler=Halves(), seed_generators=False)
    assert len(numbers_of(loader)) == 4
    assert np.random.randint(1 << 30) == expected


def test_workers_share_the_order_of_a_sampler():
    store = ffdl.open_store("mem://")

    def work(rank):
        loader = ElasticLoader(np.arange(20), batch_samples=6, epochs=2, sampler=Halves())
        return sum(numbers_of(loader, open_session(loader, store, f"w{rank}", min_workers=2)), [])

    taken = sum(on_threads(range(2), work), [])
    assert sorted(taken) == sorted([*range(0, 20, 2)] * 4)


def test_workers_of_different_orders_are_refused():
    store = ffdl.open_store("mem://")

    def work(rank):
        loader = ElasticLoader(np.arange(20), batch_samples=6, sampler=Halves(), seed=rank)
        try:
            return numbers_of(loader, open_session(loader, store, f"w{rank}", min_workers=2,
                                                   recovery_timeout_s=2.0))
        except ffdl.Error as error:
            return error

    ended = on_threads(range(2), work)
    assert any("seed is" in str(one) for one in ended if isinstance(one, ffdl.Error)), ended


class Buckets:
    """Batches of four samples of like length each; the last is smaller."""

    def __iter__(self):
        for begin in np.random.permutation(4).tolist():
            yield list(range(4 * begin, 4 * begin + 4))
        yield [16, 17]

    def __len__(self):
        return 5


def test_a_batch_of_a_batch_sampler_is_a_step():
    loader = ElasticLoader(np.arange(18), batch_samples=4, epochs=2, batch_sampler=Buckets())
    batches = numbers_of(loader)
    assert len(loader) == 5 and len(batches) == 10
    for epoch in (batches[:5], batches[5:]):
        assert sorted(epoch[:4]) == [list(range(b, b + 4)) for b in (0, 4, 8, 12)]
        assert epoch[4] == [16, 17]


class Drifting:
    """Draws from a generator of its own, which nothing seeds."""

    def __init__(self):
        self._generator = np.random.default_rng(1)

    def __iter__(self):
        return iter(self._generator.permutation(20).tolist())


class Growing:
    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        return iter(range(10 + self.epoch))


@pytest.mark.parametrize("options, message", [
    ({"sampler": Drifting()}, "two orders for epoch 0"),
    ({"sampler": [0, 20]}, "from 0 to 20"),
    ({"sampler": [-1, 2]}, "from -1 to 2"),
    ({"sampler": []}, "it returned no samples"),
    ({"sampler": [1], "batch_sampler": [[1]]}, "only one of sampler and batch_sampler"),
    ({"sampler": [1], "shuffle": ffdl.Shuffle.SAMPLES}, "no shuffle"),
    ({"batch_sampler": [[1, 2], [3, 4, 5]]}, "a batch has 2 samples, and batch_samples is 5"),
    ({"batch_sampler": [[1, 2, 3, 4, 5, 6]]}, "a batch has 6 samples"),
    ({"batch_sampler": [[1]], "order": ON_DEMAND, "partition_samples": 4}, "only with"),
])
def test_wrong_samplers(options, message):
    with pytest.raises(ffdl.InvalidArgument, match=message):
        ElasticLoader(np.arange(20), batch_samples=5, **options)


def test_an_epoch_of_another_length_is_refused():
    loader = ElasticLoader(np.arange(20), batch_samples=5, epochs=2, sampler=Growing())
    with pytest.raises(ffdl.InvalidArgument, match="epoch 1 has 11 samples, an earlier epoch 10"):
        run(loader)


def test_samplers_of_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    utils = torch.utils.data
    weighted = utils.WeightedRandomSampler([1.0] * 5 + [0.0] * 15, 30)
    taken = sum(numbers_of(ElasticLoader(np.arange(20), batch_samples=6, epochs=2,
                                         sampler=weighted)), [])
    assert len(taken) == 60 and set(taken) == set(range(5)) and taken[:30] != taken[30:]
    own = utils.RandomSampler(range(20), generator=torch.Generator().manual_seed(7))
    batches = utils.BatchSampler(own, 5, drop_last=True)
    taken = numbers_of(ElasticLoader(np.arange(20), batch_samples=5, epochs=2, batch_sampler=batches))
    assert sorted(sum(taken[:4], [])) == list(range(20)) and taken[:4] != taken[4:]
    share = utils.distributed.DistributedSampler(range(20), num_replicas=2, rank=0)
    with pytest.raises(ffdl.InvalidArgument, match="one worker's share"):
        ElasticLoader(np.arange(20), batch_samples=5, sampler=share)
    with pytest.raises(ffdl.InvalidArgument, match="ffdl.data.IterableShards"):
        ElasticLoader(utils.ChainDataset([]), batch_samples=5)
