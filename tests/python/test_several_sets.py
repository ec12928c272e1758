"""Several data sets as one, and parts of one."""

import pickle

import numpy as np
import pytest

import ffdl
from ffdl.data import ElasticLoader, mix, split


class Rows:
    def __init__(self, first, count):
        self._first, self._count = first, count

    def __len__(self):
        return self._count

    def __getitem__(self, number):
        return np.int64(self._first + number)


def npy(folder, name, numbers):
    np.save(folder / name, np.asarray(numbers))
    return ffdl.open_npy([str(folder / name)])


def epochs_of(data, epochs=1, **options):
    """What an only worker is given."""
    loader = ElasticLoader(
        data, batch_samples=7, epochs=epochs, order=ffdl.SampleOrder.ON_DEMAND,
        partition_samples=32, store=ffdl.open_store("mem://"), id="a", **options)
    used = []
    with loader:
        for _, batch in loader.all_parts():
            used.append(batch)
            loader.ledger.commit()
    return used


KINDS = ["rows", "array", "files"]


def set_of(kind, folder, first, count):
    if kind == "rows":
        return Rows(first, count)
    numbers = np.arange(first, first + count)
    return numbers if kind == "array" else npy(folder, f"{first}.npy", numbers)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_have_no_sample_in_common(tmp_path, kind):
    whole = set_of(kind, tmp_path, 0, 1000)
    parts = split(whole, [0.8, 0.1, 0.1], seed=3)
    assert [len(part) for part in parts] == [800, 100, 100]
    used = [np.concatenate(epochs_of(part, 2)).tolist() for part in parts]
    for part in used:
        assert all(part.count(number) == 2 for number in set(part))
    assert sorted(number for part in used for number in part) == sorted(2 * list(range(1000)))
    again = np.concatenate(epochs_of(split(whole, [0.8, 0.1, 0.1], seed=3)[1])).tolist()
    assert sorted(again) == sorted(set(used[1]))
    other = np.concatenate(epochs_of(split(whole, [0.8, 0.1, 0.1], seed=4)[1])).tolist()
    assert sorted(again) != sorted(other)
    with pytest.raises(ffdl.InvalidArgument, match="split"):
        split(whole, [1, 0])


def test_a_part_is_read_as_the_whole_is():
    x, y = np.arange(200.0).reshape(100, 2), np.arange(100)
    train, rest = split((x, y), [0.5, 0.5])
    of_rest, _ = split(rest, [0.5, 0.5])  # a part of a part
    for part in (train, of_rest):
        numbers = []
        for points, labels in epochs_of(part):
            assert (points[:, 0] == 2 * labels).all()
            numbers += labels.tolist()
        assert len(set(numbers)) == len(part)
    assert not set(numbers) & {int(train[i][1]) for i in range(len(train))}
    assert [row[1] for row in train.__getitems__([3, 0])] == [train[3][1], train[0][1]]
    assert pickle.loads(pickle.dumps(of_rest))[2][1] == of_rest[2][1]
    with pytest.raises(IndexError):
        train[50]


@pytest.mark.parametrize("kind", KINDS)
def test_a_mixture_has_of_each_what_its_weight_says(tmp_path, kind):
    data = mix([set_of(kind, tmp_path, 0, 300), set_of(kind, tmp_path, 1000, 50)], [3, 1])
    assert len(data) == 400  # the first is used up once, the second twice
    used = np.concatenate(epochs_of(data, num_workers=1 if kind == "rows" else 0))
    numbers, times = np.unique(used, return_counts=True)
    assert numbers.tolist() == [*range(300), *range(1000, 1050)]
    assert set(times[:300]) == {1} and set(times[300:]) == {2}


def test_a_mixture_of_kinds(tmp_path):
    data = mix([Rows(0, 30), np.arange(100, 130)], [1, 1])
    assert sorted(data.__getitems__(range(60))) == [*range(30), *range(100, 130)]
    assert pickle.loads(pickle.dumps(data))[7] == data[7]
    with pytest.raises(IndexError):
        data[60]
    with pytest.raises(ffdl.InvalidArgument, match="only one kind"):
        mix([Rows(0, 3), npy(tmp_path, "a.npy", range(3))], [1, 1])
    with pytest.raises(ffdl.InvalidArgument, match="weights"):
        mix([Rows(0, 3)], [1, 1])


def test_files_one_after_the_other(tmp_path):
    first, second = npy(tmp_path, "a.npy", range(3)), npy(tmp_path, "b.npy", range(3, 8))
    joined = ffdl.join_sources([first, second])
    del second
    assert joined.read([7, 0, 3]).tolist() == [7, 0, 3] and first.read([1]).tolist() == [1]
    (part,) = ffdl.split_source(joined, [1.0])
    del joined
    assert sorted(part.read(range(8)).tolist()) == list(range(8))
    with pytest.raises(ffdl.InvalidArgument, match="format|dtype|samples"):
        ffdl.join_sources([first, npy(tmp_path, "c.npy", [0.5])])
