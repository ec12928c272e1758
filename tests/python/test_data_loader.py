"""Samples for elastic training: what comes, from where, and who has it next."""

import io
import multiprocessing
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tarfile

import numpy as np
import pytest
from elastic_jobs import churn, committed_steps, expect_each_sample_once, wait_for
from ranks import on_threads
from test_buffers import Tensor

import ffdl
from ffdl.data import (
    ElasticLoader,
    IterableShards,
    collate,
    forecast,
    generators,
    parts,
    transfer,
)

GLOBAL, ON_DEMAND = ffdl.SampleOrder.GLOBAL, ffdl.SampleOrder.ON_DEMAND


def open_session(loader, store=None, id="a", **options):
    return ffdl.Session.open(
        store or ffdl.open_store("mem://"), id=id, state=[np.zeros(1)], gradients=[np.zeros(1)],
        apply=lambda: None, participants=[loader.ledger], lease_s=15.0, gather_s=0.05, **options)


def run(loader, session=None, steps=None):
    """The batches of all steps, or of so many."""
    session = session or open_session(loader)
    batches = []
    for batch in loader.batches(session):
        batches.append(batch)
        session.end_step(loader.taken)
        if len(batches) == steps:
            break
    return batches


class Rows:
    """A map-style data set, as PyTorch's are."""

    def __init__(self, samples=50, columns=3):
        self._samples = samples
        self._columns = columns

    def __len__(self):
        return self._samples

    def __getitem__(self, number):
        if not isinstance(number, int):
            raise TypeError("a number of Python, as DataLoader gives it")
        return np.full(self._columns, number, np.float32), number


class Columns(Rows):
    """As data sets of Hugging Face: dicts, and a call for several samples at once."""

    def __getitem__(self, number):
        raise AssertionError("one call for a batch is enough")

    def __getitems__(self, numbers):
        return [{"text": f"query {n}", "label": n} for n in numbers]


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("order", [GLOBAL, ON_DEMAND])
def test_each_sample_once_per_epoch(order, workers):
    partition = {"partition_samples": 12} if order == ON_DEMAND else {}
    with ElasticLoader(Rows(), batch_samples=8, epochs=3, seed=4, order=order,
                       num_workers=workers, **partition) as loader:
        batches = run(loader)
    for rows, numbers in batches:
        assert rows.dtype == np.float32 and rows.shape == (len(numbers), 3)
        assert (rows == numbers[:, None]).all()
    epochs = np.split(np.concatenate([numbers for _, numbers in batches]), 3)
    for epoch in epochs:
        assert sorted(epoch) == list(range(50))
    assert epochs[0].tolist() != epochs[1].tolist()
    if order == GLOBAL:
        assert [len(numbers) for _, numbers in batches] == 3 * ([8] * 6 + [2])
        assert len(loader) == 7


@pytest.mark.parametrize("partition", [None, 12])
@pytest.mark.parametrize("order", [GLOBAL, ON_DEMAND])
def test_what_is_read_ahead_is_what_comes(order, partition):
    """For one worker: all of it in one global order; of leases what they have."""
    if order == ON_DEMAND and partition is None:
        partition = 50
    loader = ElasticLoader(np.arange(50), batch_samples=8, epochs=3, order=order,
                           partition_samples=partition, partitions_wanted=3)
    session = open_session(loader)
    loader._ahead = 2
    told, keys = [], []
    while not loader.is_done:
        ranges = loader.ledger.take(None if order == GLOBAL else 8)
        keys.append(tuple((r.partition, r.begin, r.end) for r in ranges))
        told.append(loader._forecast(8))
        session.end_step(loader.taken)
    right = sum(key in ahead for key, ahead in zip(keys[1:], told))
    if order == GLOBAL:
        assert right == len(keys) - 1
        assert [len(ahead) for ahead in told[-3:]] == [2, 1, 0]
    else:
        assert right >= len(keys) * 3 // 5


def test_forecast_of_leases():
    leases = ((3, 5, 12), (1, 0, 3), (7, 0, 1))
    assert forecast.of_leases(leases, 4, 9) == [((3, 9, 12), (1, 0, 1))]
    assert forecast.of_leases(leases, 2, 2) == [((3, 7, 9),), ((3, 9, 11),)]
    assert forecast.of_leases(leases, 2, 9)[2:] == [((3, 11, 12), (1, 0, 1)), ((1, 1, 3),)]
    assert forecast.of_leases(leases, 20, 9) == []
    assert forecast.of_leases((), 4, 2) == []


def test_cuts_of_a_step():
    step = ((0, 5, 12), (3, 0, 4))
    assert parts.whole(step) == [step] and parts.count(step) == 11
    assert parts.every(4)(step) == [((0, 5, 9),), ((0, 9, 12), (3, 0, 1)), ((3, 1, 4),)]
    assert parts.at_most(4)(step) == parts.every(4)(step)
    assert [parts.count(one) for one in parts.at_most(5)(step)] == [4, 4, 3]
    assert [parts.count(one) for one in parts.at_most(11)(step)] == [11]
    assert parts.of_one_range(step) == [((0, 5, 12),), ((3, 0, 4),)]
    for cut in (parts.whole, parts.of_one_range, parts.every(4), parts.at_most(4)):
        assert cut(()) == []


@pytest.mark.parametrize("workers", [0, 1])
def test_a_step_in_parts(workers):
    loader = ElasticLoader(np.arange(50), batch_samples=12, num_workers=workers)
    with loader:
        session = open_session(loader)
        seen = []
        while not loader.is_done:
            due = loader.ledger.sample_indices(loader.ledger.take())
            together = []
            for ranges, batch in loader.next_parts(parts.every(5)):
                assert len(batch) == parts.count(ranges) <= 5
                together.extend(batch)
            assert together == due.tolist()
            seen.extend(together)
            session.end_step(loader.taken)
    assert sorted(seen) == list(range(50))


def test_two_workers_share_each_step():
    store = ffdl.open_store("mem://")

    def worker(number):
        with ElasticLoader(np.arange(40), batch_samples=10, epochs=2, num_workers=1) as loader:
            session = open_session(loader, store, f"m{number}", min_workers=2)
            rank = session.world.rank
            return rank, [batch.tolist() for batch in run(loader, session)]

    (_, first), (_, second) = sorted(on_threads(range(2), worker))
    assert {len(batch) for batch in first + second} == {5}
    together = [a + b for a, b in zip(first, second, strict=True)]
    alone = run(ElasticLoader(np.arange(40), batch_samples=10, epochs=2))
    assert together == [batch.tolist() for batch in alone]


def test_who_takes_more_at_a_time_is_given_more():
    store = ffdl.open_store("mem://")

    def worker(number):
        loader = ElasticLoader(np.arange(400), order=ON_DEMAND, partition_samples=10,
                               batch_samples=(9, 3)[number])
        session = open_session(loader, store, f"m{number}", min_workers=2)
        return np.concatenate(run(loader, session))

    first, second = on_threads(range(2), worker)
    assert sorted([*first, *second]) == list(range(400))
    assert len(first) > 2.5 * len(second)


@pytest.mark.parametrize("order", [GLOBAL, ON_DEMAND])
def test_two_workers_shuffle_within_windows(order):
    store = ffdl.open_store("mem://")

    def worker(number):
        with ElasticLoader(np.arange(95), batch_samples=8, epochs=2, order=order, num_workers=number,
                           partition_samples=10, window_partitions=4) as loader:
            session = open_session(loader, store, f"m{number}", min_workers=2)
            return [batch.tolist() for batch in run(loader, session)]

    first, second = on_threads(range(2), worker)
    assert sorted(sum(first + second, [])) == sorted(2 * list(range(95)))
    assert len({sample // 10 for sample in first[0]}) > 1, "a batch has samples of several partitions"


def test_data_sets_of_many_kinds():
    for batch in run(ElasticLoader(Columns(7), batch_samples=4)):
        assert set(batch) == {"text", "label"}
        assert batch["text"] == [f"query {n}" for n in batch["label"]]
    x, y = np.arange(14).reshape(7, 2), np.arange(7) * 10
    for rows, labels in run(ElasticLoader((x, y), batch_samples=4)):
        assert (rows[:, 0] * 5 == labels).all()
    seen = run(ElasticLoader(x, batch_samples=7, shuffle=ffdl.Shuffle.NONE,
                             collate_fn=lambda rows: [len(rows), rows[1].tolist()]))
    assert seen == [[7, [2, 3]]]
    columns = {"rows": x, "label": y, "text": [f"query {n}" for n in range(7)]}
    for batch in run(ElasticLoader(columns, batch_samples=4)):
        assert (batch["rows"][:, 0] * 5 == batch["label"]).all()
        assert batch["text"] == [f"query {n // 10}" for n in batch["label"]]
    by_number = {n: n * 10 for n in range(7)}
    assert sorted(np.concatenate(run(ElasticLoader(by_number, batch_samples=4)))) == y.tolist()
    for dataset in ((x, y[:5]), {"x": x, "y": y[:5]}, iter(x), [x for x in ()]):
        with pytest.raises(ffdl.InvalidArgument):
            ElasticLoader(dataset, batch_samples=4)
    with pytest.raises(ffdl.InvalidArgument, match="write 'for batch in trainer.batches"):
        list(ElasticLoader(x, batch_samples=4))


def test_what_pytorch_tells_in_loading_processes():
    data = pytest.importorskip("torch", reason="PyTorch is not installed").utils.data

    class Known(Rows):
        begin = None

        def __getitem__(self, number):
            info = data.get_worker_info()
            return self.begin, info.id, info.num_workers

    def init(number):
        info = data.get_worker_info()
        assert info.id == number
        info.dataset.begin = 10 * number

    with ElasticLoader(Known(8), batch_samples=4, num_workers=2, worker_init_fn=init) as loader:
        seen = {tuple(int(one[0]) for one in batch) for batch in run(loader)}
    assert seen == {(0, 0, 2), (10, 1, 2)}
    assert data.get_worker_info() is None


def test_shards_that_are_iterated_over():
    begun = []

    def shard(number, samples):
        begun.append(number)
        return ((number, i) for i in range(samples))

    shards = [lambda n=n, s=s: shard(n, s) for n, s in enumerate([7, 0, 12, 5])]
    data = IterableShards(shards)
    assert len(data) == 24 and begun == [0, 1, 2, 3]
    assert [data[i] for i in (0, 3, 6, 7, 18, 19, 2)] == [
        (0, 0), (0, 3), (0, 6), (2, 0), (2, 11), (3, 0), (0, 2)]
    assert begun == [0, 1, 2, 3, 0, 2, 3, 0]
    loader = ElasticLoader(
        IterableShards([[5, 6, 7], [8, 9]]), order=ON_DEMAND, partition_samples=2, batch_samples=2,
        shuffle=ffdl.Shuffle.PARTITIONS, num_workers=2)
    with loader:
        assert sorted(np.concatenate(run(loader))) == [5, 6, 7, 8, 9]
    with pytest.raises(ffdl.Corrupt, match="sample 2 of shard 0"):
        IterableShards([[1, 2]], counts=[3])[2]
    with pytest.raises(ffdl.InvalidArgument, match="number of samples of each"):
        IterableShards([[1, 2]], counts=[1, 1])
    with pytest.raises(IndexError):
        data[24]


def test_iterable_data_sets_of_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    class Shard(torch.utils.data.IterableDataset):
        def __init__(self, begin, end):
            self._numbers = range(begin, end)

        def __iter__(self):
            return (torch.tensor([number, -number]) for number in self._numbers)

    class Counted(Shard):
        def __len__(self):
            return len(self._numbers)

    shards = IterableShards([Shard(0, 7), Counted(7, 12), Shard(12, 20)])
    for workers in (0, 2):
        with ElasticLoader(shards, order=ON_DEMAND, partition_samples=5, batch_samples=3,
                           shuffle=ffdl.Shuffle.PARTITIONS, num_workers=workers) as loader:
            rows = torch.cat(run(loader))
        assert sorted(rows[:, 0].tolist()) == list(range(20)) and not rows.sum()
    for iterable in (Shard(0, 7), Counted(7, 12)):
        with pytest.raises(ffdl.InvalidArgument, match="convert an iterable .*IterableShards"):
            ElasticLoader(iterable, batch_samples=4)


@pytest.mark.filterwarnings("ignore")  # of that package and what it rests on
def test_data_sets_of_hugging_face():
    datasets = pytest.importorskip("datasets", reason="Hugging Face's datasets is not installed")
    columns = {"text": [f"query {n}" for n in range(30)], "label": list(range(30)),
               "row": [[n, n + 1] for n in range(30)]}
    data = datasets.Dataset.from_dict(columns)
    for workers in (0, 2):
        for format in (None, "numpy", "torch"):
            if format == "torch":
                pytest.importorskip("torch", reason="PyTorch is not installed")
            with ElasticLoader(data.shuffle(seed=1).with_format(format), batch_samples=8,
                               num_workers=workers) as loader:
                batches = run(loader)
            for batch in batches:
                assert list(batch["text"]) == [f"query {n}" for n in batch["label"]]
            assert sorted(int(n) for batch in batches for n in batch["label"]) == list(range(30))
            if format is not None:
                assert all((batch["row"][:, 1] == batch["label"] + 1).all() for batch in batches)
    with pytest.raises(ffdl.InvalidArgument, match="IterableShards"):
        ElasticLoader(data.to_iterable_dataset(), batch_samples=8)
    shards = IterableShards([data.to_iterable_dataset(num_shards=3).shard(3, i) for i in range(3)])
    assert len(shards) == 30 and shards[29]["text"] == "query 29"


def test_collate():
    Pair = __import__("collections").namedtuple("Pair", "a b")
    batch = collate([Pair(1, {"x": np.ones(2)}), Pair(2.5, {"x": np.zeros(2)})])
    assert isinstance(batch, Pair) and batch.a.tolist() == [1, 2.5]
    assert batch.b["x"].tolist() == [[1, 1], [0, 0]]
    assert collate([b"ab", b"c"]) == [b"ab", b"c"] and collate([None]) == [None]
    assert collate([(1, "a"), (2, "b")])[1] == ["a", "b"]
    for wrong in ([np.ones(2), np.ones(3)], [(1, 2), (1,)], [{"a": 1}, {"b": 1}]):
        with pytest.raises(ffdl.InvalidArgument, match="pass a collate_fn"):
            collate(wrong)


@pytest.mark.parametrize("columns", [3, 1251, 40_000])
def test_batches_that_are_kept_stay(columns):
    """Their memory is used again only when nobody has any of it."""
    with ElasticLoader(Rows(40, columns), batch_samples=4, num_workers=1) as loader:
        kept = [rows[1:] for rows, _ in run(loader)]
        for rows in kept:
            assert (rows == rows[:, :1]).all()
        assert sorted(int(rows[i, 0]) for rows in kept for i in range(3)) == sorted(
            set(int(rows[i, 0]) for rows in kept for i in range(3)))
        slots = len(loader._pool._workers[0]._slots)
    assert (slots > 8) == (columns > 1000)
    assert (kept[0] == kept[0][:, :1]).all()  # also when the loader is gone


def test_memory_that_nobody_uses_is_used_again():
    with ElasticLoader(Rows(400, 4000), batch_samples=4, num_workers=1) as loader:
        session = open_session(loader)
        for rows, numbers in loader.batches(session):
            assert (rows == numbers[:, None]).all()
            session.end_step(loader.taken)
        assert len(loader._pool._workers[0]._slots) <= 5


class Failing(Rows):
    def __getitem__(self, number):
        if number == 13:
            raise KeyError("the thirteenth")
        return number


class OfTwo(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")


class FailingOddly(Rows):
    def __getitem__(self, number):
        raise OfTwo("one", "x" * 1_000_000 + "two")


def test_what_is_packed_comes_out_again():
    """Of any size: parts are aligned, and the last one ends where the file does."""
    for sizes in ([5000], [4096, 1, 4097], [100, 4096], [], [9999, 10_001, 12_345]):
        slot = transfer.Slot()
        batch = [np.arange(size, dtype=np.uint8) for size in sizes] + ["x" * sum(sizes)]
        unpacked = slot.unpack(transfer.pack(batch, slot.file))
        assert all((a == b).all() for a, b in zip(unpacked[:-1], batch[:-1], strict=True))
        assert unpacked[-1] == batch[-1]
        assert all(a.ctypes.data % 64 == 0 for a in unpacked[:-1] if a.nbytes >= 4096)


def test_an_exception_that_cannot_travel_is_told():
    with ElasticLoader(FailingOddly(4), batch_samples=4, num_workers=1) as loader:
        session = open_session(loader)
        with pytest.raises(ffdl.Error, match=r"(?s)in a loading process:.*two\n$"):
            loader.next()
        assert session.step == 0


class Deadly(Rows):
    def __getitem__(self, number):
        if number == 13:
            os.kill(os.getpid(), signal.SIGKILL)
        return number


def test_what_fails_in_a_process_is_raised_here():
    with ElasticLoader(Failing(20), batch_samples=5, shuffle=ffdl.Shuffle.NONE,
                       num_workers=2) as loader:
        session = open_session(loader)
        for _ in range(2):
            assert len(loader.next()) == 5
            session.end_step(loader.taken)
        for _ in range(2):  # each time that it is asked for
            with pytest.raises(KeyError, match="the thirteenth") as raised:
                loader.next()
            assert "in __getitem__" in str(raised.value.__cause__)


def test_a_process_that_is_killed_is_no_hang():
    with ElasticLoader(Deadly(20), batch_samples=5, shuffle=ffdl.Shuffle.NONE,
                       num_workers=1, prefetch_factor=1) as loader:
        session = open_session(loader)
        with pytest.raises(ffdl.PeerLost, match="was killed by signal 9"):
            for batch in loader.batches(session):
                assert len(batch) == 5
                session.end_step(loader.taken)
        assert 1 <= session.step <= 2


def test_processes_that_are_not_forked():
    with ElasticLoader(np.arange(10), batch_samples=5, num_workers=1,
                       multiprocessing_context="spawn") as loader:
        assert sorted(np.concatenate(run(loader))) == list(range(10))
    with pytest.raises(ffdl.InvalidArgument, match="can be pickled"):
        ElasticLoader(np.arange(4), batch_samples=2, num_workers=1, collate_fn=lambda x: x,
                      multiprocessing_context="spawn")


def test_generators_are_a_function_of_the_sample():
    class Noisy(Rows):
        def __getitem__(self, number):
            return random.random(), np.random.random()

    def noise(**options):
        with ElasticLoader(Noisy(), batch_samples=8, epochs=2, **options) as loader:
            return np.concatenate([np.stack(batch) for batch in run(loader)], axis=1)

    here, there = noise(), noise(num_workers=2)
    assert (here == there).all()
    assert len(np.unique(here)) == here.size
    assert not (here == noise(seed=1)).any()
    assert not (here == noise(seed_generators=False)).any()


@pytest.mark.parametrize("way", ["copied", "not found", "another generator of NumPy's"])
def test_generators_begin_with_the_seed(way, monkeypatch):
    """Whatever was drawn before; `random` also keeps a number beside its words."""
    before = np.random.get_bit_generator()
    if way == "not found":
        monkeypatch.setattr(generators, "_state", None)
    if way == "another generator of NumPy's":
        np.random.set_bit_generator(np.random.PCG64())
    assert way != "copied" or generators._state is not None

    def drawn(seed):
        generators.seed_generators(seed)
        assert random.getstate()[1][-1] == 624
        return [random.gauss(0, 1), *np.random.random(700),
                *(random.random() for _ in range(700))]

    try:
        first = drawn(5)
        random.gauss(0, 1)
        assert drawn(5) == first
        assert len({*first, *drawn(6)}) == 2 * len(first)
    finally:
        np.random.set_bit_generator(before)


def test_a_forgotten_end_step_is_told():
    loader = ElasticLoader(np.arange(12), batch_samples=4)
    session = open_session(loader)
    batches = loader.batches(session)
    next(batches)
    session.end_step(loader.taken)
    next(batches)
    with pytest.raises(ffdl.InvalidArgument, match=r"end_step\(\) was not called in step 2"):
        next(batches)


def test_training_goes_on_from_a_saved_state():
    def make():
        return ElasticLoader(np.arange(30), batch_samples=4, epochs=2, seed=7)

    whole = [batch.tolist() for batch in run(make())]
    loader = make()
    begun = [batch.tolist() for batch in run(loader, steps=5)]
    saved = loader.state_dict()
    again = make()
    again.load_state_dict(saved)
    assert begun + [batch.tolist() for batch in run(again)] == whole
    with pytest.raises(ffdl.Corrupt):
        again.load_state_dict({"ledger": saved["ledger"][:-1]})


def test_processes_end_with_the_one_that_trains(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, time, numpy as np, ffdl\n"
        "loader = ffdl.data.ElasticLoader(np.arange(9), batch_samples=3, num_workers=2)\n"
        "print(*[p.pid for p in multiprocessing.active_children()], flush=True)\n"
        "time.sleep(600)\n")
    training = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True)
    children = [int(pid) for pid in training.stdout.readline().split()]
    assert len(children) == 2 and all(map(is_running, children))
    training.kill()
    training.wait()
    training.stdout.close()
    wait_for(lambda: not any(map(is_running, children)), "the processes that load have ended")


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_loader_that_is_gone_leaves_no_process():
    loader = ElasticLoader(np.arange(9), batch_samples=3, num_workers=2)
    assert len(multiprocessing.active_children()) >= 2
    before = {p.pid for p in multiprocessing.active_children()}
    del loader
    assert len(before & {p.pid for p in multiprocessing.active_children()}) <= len(before) - 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": -1}, "at least 0, 1, 1 and 0"),
        ({"epochs": -1}, "epochs -1; give at least 0, 1, 1 and 0"),
        ({"order": ON_DEMAND}, "partition_samples is missing"),
        ({"micro_batch_samples": 3}, "micro"),
    ],
)
def test_what_would_be_wrong_is_said(options, message):
    with pytest.raises(ffdl.InvalidArgument, match=message):
        ElasticLoader(np.arange(9), **({"batch_samples": 4} | options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 4}, "there is no option 'batch_size'; use 'batch_samples'"),
        ({"drop_last": True}, "no option 'drop_last'; leave it out, because each sample"),
        ({"window_partition": 2}, "no option 'window_partition'; use 'window_partitions'"),
        ({"anything": 2}, "no option 'anything'; leave it out"),
        ({"shuffle": True}, "shuffle is True; use ffdl.Shuffle.SAMPLES"),
        ({"seed": "one"}, "an option has a wrong type"),
    ],
)
def test_options_of_a_data_loader_are_named(options, message):
    with pytest.raises(TypeError, match=message) as raised:
        ElasticLoader(np.arange(9), **({"batch_samples": 4} | options))
    assert "Invoked with" not in str(raised.value)


def test_workers_come_leave_and_are_killed(tmp_path):
    lives = churn(tmp_path, pathlib.Path(__file__).with_name("loader_worker.py"))
    steps = {one["step"] for life in lives for one in life if "step" in one}
    assert sorted(steps) == list(range(1, max(steps) + 1))
    expect_each_sample_once(committed_steps(lives))


def test_tensors_come_as_tensors():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    for wrong in ([torch.ones(2), torch.ones(3)], [{"a": torch.ones(2)}, {"a": torch.ones(3)}]):
        with pytest.raises(ffdl.InvalidArgument, match="pass a collate_fn"):
            collate(wrong)

    class Tensors(Rows):
        def __getitem__(self, number):
            half = torch.full((4000,), number, dtype=torch.bfloat16)
            return {"half": half, "bit": torch.tensor(number % 2 == 0), "n": torch.tensor(number)}

    for workers in (0, 2):
        with ElasticLoader(Tensors(), batch_samples=8, num_workers=workers,
                           pin_memory=not torch.cuda.is_available()) as loader:
            batches = run(loader)
        for batch in batches:
            assert batch["half"].dtype == torch.bfloat16 and batch["bit"].dtype == torch.bool
            assert (batch["half"] == batch["n"][:, None]).all()
            assert (batch["bit"] == (batch["n"] % 2 == 0)).all()
            batch["n"] += 1  # they are the receiver's own
        assert sorted(torch.cat([b["n"] for b in batches]).tolist()) == list(range(1, 51))


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_are_pinned_where_there_is_cuda(workers, monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    pinned = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(
        torch.utils.data._utils.pin_memory, "pin_memory",
        lambda batch: pinned.append(batch) or {"pinned": batch})
    for pins in (False, True):
        with ElasticLoader(torch.arange(12).unbind(), batch_samples=4, num_workers=workers,
                           pin_memory=pins) as loader:
            batches = run(loader)
        assert len(pinned) == (3 if pins else 0)
    assert [batch["pinned"] is one for batch, one in zip(batches, pinned, strict=True)] == 3 * [True]


def make_files(folder):
    np.save(folder / "rows.npy", np.arange(60, dtype=np.float32).reshape(20, 3))
    np.arange(101, dtype=np.uint16).tofile(folder / "tokens.bin")
    (folder / "records.bin").write_bytes(b"head" + bytes(range(80)))
    (folder / "lines.txt").write_text("".join(f"line {i}\n" for i in range(12)))
    with tarfile.open(folder / "shard.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(3):
            for name, data in (("txt", b"text %d" % i), ("cls", b"%d" % i)):
                info = tarfile.TarInfo(f"{i:04}.{name}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return {path.name: [str(path)] for path in folder.iterdir()}


def test_files_as_data_sets(tmp_path):
    files = make_files(tmp_path)
    rows = ffdl.open_npy(files["rows.npy"])
    assert (rows.format.dtype, rows.format.shape, rows.format.is_fixed) == ("<f4", [3], True)
    assert len(rows) == rows.samples == 20
    for numbers in ([7, 2], Tensor(np.array([7, 2])), memoryview(np.array([7, 2])),
                    *(np.array([7, 2], dtype) for dtype in ("i8", "u8", "i4", ">i8"))):
        assert (rows.read(numbers) == [[21, 22, 23], [6, 7, 8]]).all()
    assert rows.read(np.arange(20)[2:8:5]).tolist() == [[6, 7, 8], [21, 22, 23]]  # with gaps
    tokens = ffdl.open_tokens(files["tokens.bin"], window=10)
    assert tokens.read([9])[0].tolist() == list(range(90, 101)) and len(tokens) == 10
    records = ffdl.open_records(files["records.bin"], record_bytes=20, header_bytes=4)
    assert records.read([1]).tolist() == [list(range(20, 40))]
    lines = ffdl.open_lines(files["lines.txt"])
    assert lines.read(np.array([11, 0])) == [b"line 11", b"line 0"]
    assert not lines.format.is_fixed
    shards = ffdl.open_tar_shards(files["shard.tar"])
    assert ffdl.tar_fields(shards.read([2])[0]) == {"txt": b"text 2", "cls": b"2"}
    for workers in (0, 1):
        with ElasticLoader(rows, batch_samples=8, num_workers=workers) as loader:
            batches = run(loader)
        assert [batch.shape for batch in batches] == [(8, 3), (8, 3), (4, 3)]
        assert sorted(np.concatenate(batches)[:, 0]) == list(range(0, 60, 3))
        with ElasticLoader(shards, batch_samples=3, num_workers=workers,
                           collate_fn=lambda samples: [
                               ffdl.tar_fields(one)["cls"] for one in samples]) as loader:
            assert sorted(run(loader)[0]) == [b"0", b"1", b"2"]


def test_samples_come_into_memory_of_the_caller(tmp_path):
    files = make_files(tmp_path)
    rows = ffdl.open_npy(files["rows.npy"])
    mine = np.full((4, 3), -1, np.float32)
    read = rows.read([7, 2], out=mine)
    assert read.shape == (2, 3) and read.dtype == np.float32 and read.flags.writeable
    assert read.base is mine and read.ctypes.data == mine.ctypes.data
    assert mine.tolist() == [[21, 22, 23], [6, 7, 8], [-1] * 3, [-1] * 3]
    read[0, 0] = 5
    assert mine[0, 0] == 5
    assert rows.read([], out=mine).shape == (0, 3)

    plain = bytearray(24)  # any memory, of single bytes or of the samples' type
    assert rows.read(np.array([1, 0]), out=plain).tolist() == [[3, 4, 5], [0, 1, 2]]
    assert np.frombuffer(plain, np.float32).tolist() == [3, 4, 5, 0, 1, 2]
    assert rows.read([3], out=memoryview(mine)[1:2]).tolist() == [[9, 10, 11]]
    assert mine[1].tolist() == [9, 10, 11]
    tokens = ffdl.open_tokens(files["tokens.bin"], window=10)
    for memory in (np.zeros(11, np.uint16), np.zeros(22, np.int8), memoryview(bytearray(22)).cast("H")):
        assert tokens.read([9], out=memory).tolist() == [list(range(90, 101))]

    lines = ffdl.open_lines(files["lines.txt"])
    read = lines.read([11, 0], out=(text := bytearray(20)))
    assert [bytes(line) for line in read] == [b"line 11", b"line 0"] and read[1].dtype == np.uint8
    assert text == b"line 11line 0" + bytes(7)
    read[1][0] = ord("L")
    assert text[7:13] == b"Line 0"
    (tmp_path / "json").write_text('1\nx\n"three"\n')
    json_lines = ffdl.open_json_lines(
        [str(tmp_path / "json")], skip_corrupt=True)
    first, second, third = json_lines.read([2, 1, 0], out=text)
    assert (bytes(first), second, bytes(third)) == (b'"three"', None, b"1")
    assert text.startswith(b'"three"1')


def test_memory_that_samples_cannot_come_into(tmp_path):
    files = make_files(tmp_path)
    rows = ffdl.open_npy(files["rows.npy"])
    frozen = np.zeros((2, 3), np.float32)
    frozen.flags.writeable = False
    for memory, complaint in (
            (np.zeros(6), "elements of <f8; give <f4"),
            (np.zeros(6, np.int32), "elements of <i4; give <f4"),
            (np.zeros(6, ">f4"), "elements of >f4; give <f4"),
            (np.zeros((2, 6), np.float32)[:, :3], "not C-contiguous"),
            (frozen, "read-only"),
            (bytes(24), "read-only"),
            ([0.0] * 6, "a list; give one array"),
            (np.zeros(5, np.float32), "into memory of 20 bytes: the samples have 24")):
        with pytest.raises(ffdl.InvalidArgument, match=complaint):
            rows.read([7, 2], out=memory)
    lines = ffdl.open_lines(files["lines.txt"])
    with pytest.raises(ffdl.InvalidArgument, match="give .u1"):
        lines.read([0], out=np.zeros(6, np.float32))
    text = bytearray(12)
    with pytest.raises(ffdl.InvalidArgument, match="memory of 12 bytes: the samples have 13"):
        lines.read([11, 0], out=text)
    assert bytes(lines.read([11], out=text)[0]) == b"line 11"


def test_samples_come_into_a_tensor(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    rows = ffdl.open_npy(make_files(tmp_path)["rows.npy"])
    mine = torch.zeros(2, 3)
    read = rows.read([7, 2], out=mine)
    assert read.ctypes.data == mine.data_ptr()
    assert mine.tolist() == [[21, 22, 23], [6, 7, 8]]
    with pytest.raises(ffdl.InvalidArgument, match="elements of <i8; give <f4"):
        rows.read([7], out=torch.zeros(3, dtype=torch.int64))


def test_files_that_are_wrong(tmp_path):
    files = make_files(tmp_path)
    with pytest.raises(ffdl.NotFound, match="nowhere"):
        ffdl.open_lines([str(tmp_path / "nowhere")])
    with pytest.raises(ffdl.Corrupt):
        ffdl.open_npy(files["lines.txt"])
    with pytest.raises(ffdl.Corrupt):
        ffdl.open_tf_records(files["lines.txt"])
    for numbers in ([20], np.array([20]), np.array([-1]), [-1], 2, Tensor(np.zeros(2))):
        with pytest.raises(ffdl.InvalidArgument):
            ffdl.open_npy(files["rows.npy"]).read(numbers)


@pytest.mark.parametrize("spare", range(6))
def test_few_descriptors_for_loading_processes(spare):
    """The processes that have started end."""
    first = os.dup(0)
    os.close(first)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first + spare, before[1]))
    try:
        with pytest.raises(ffdl.Exhausted, match="process: Too many open files; .*'ulimit -n'"):
            ElasticLoader(np.arange(40), batch_samples=10, num_workers=4)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert not multiprocessing.active_children()
