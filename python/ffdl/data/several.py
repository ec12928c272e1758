"""Mixes or splits data sets by weight. The sample numbers of mixtures and parts are computed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._ffdl import DataSource, _numbers, mix_sources, split_source
from ..errors import InvalidArgument
from .reading import rows_of, size_of

_Array = npt.NDArray[np.integer[Any]]


def mix(datasets: Sequence[Any], weights: Sequence[float]) -> Any:
    """Combines data sets into one mixture, according to weights.

    ::

        data = ffdl.data.mix([web, books], weights=[3, 1])
        loader = ffdl.data.ElasticLoader(data, batch_samples=64)

    In any part of the mixture, the share of each data set is proportional to its weight. The
    mixture ends when each data set has been used completely, so no sample is left out. A data set
    that ends before the end of the mixture is repeated. An item of the mixture is one sample. If
    all data sets are of type ffdl.DataSource, mix() calls ffdl.mix_sources(). Raises
    InvalidArgument.
    """
    sources = [isinstance(dataset, DataSource) for dataset in datasets]
    if datasets and all(sources):
        return mix_sources(list(datasets), list(weights))
    if any(sources):
        raise InvalidArgument(
            "mix data sets: some are of type ffdl.DataSource and some are not; pass only one "
            "kind, e.g. your own data sets that read the files"
        )
    return Mixture(datasets, weights)


def split(dataset: Any, weights: Sequence[float], seed: int = 0) -> list[Any]:
    """Divides a data set into parts without common samples, according to weights.

    ::

        train, evaluate = ffdl.data.split(data, [0.9, 0.1])

    Each sample is in exactly one part. Calls with equal weights, seeds and numbers of samples
    return equal parts, so all workers get the same parts. The size of a part is proportional to its
    weight, rounded to a thousandth of the sum of all weights. If `dataset` is an ffdl.DataSource,
    split() calls ffdl.split_source(). Raises InvalidArgument, for example if a part would have no
    samples.
    """
    if isinstance(dataset, DataSource):
        return list(split_source(dataset, list(weights), seed=seed))
    return [Part(dataset, weights, seed, which) for which in range(len(weights))]


class Part:
    """A data set with some samples of the data set `whole`, created by split()."""

    def __init__(self, whole: Any, weights: Sequence[float], seed: int, which: int) -> None:
        self.whole = whole
        self.leaves_out = getattr(whole, "leaves_out", False)
        self._made_of = (whole, list(weights), seed, which)
        self._numbers = split_source(_numbers(size_of(whole)), list(weights), seed=seed)[which]

    def __len__(self) -> int:
        return self._numbers.samples

    def numbers(self, numbers: Sequence[int] | _Array) -> _Array:
        """Maps sample numbers of the part to sample numbers of `whole`."""
        return np.asarray(self._numbers.read(np.asarray(numbers, np.int64)))

    def __getitem__(self, number: int) -> Any:
        return _one_of(self, number)

    def __getitems__(self, numbers: Sequence[int]) -> list[Any]:
        return rows_of(self.whole, self.numbers(numbers))

    def __reduce__(self) -> Any:
        return Part, self._made_of


class Mixture:
    """A data set with the samples of several data sets, created by mix()."""

    def __init__(self, datasets: Sequence[Any], weights: Sequence[float]) -> None:
        self.leaves_out = any(getattr(dataset, "leaves_out", False) for dataset in datasets)
        self._made_of = (list(datasets), list(weights))
        self._ends = list(itertools.accumulate(size_of(dataset) for dataset in datasets))
        begins = [0, *self._ends]
        self._numbers = mix_sources(
            [_numbers(end - begin, begin) for begin, end in itertools.pairwise(begins)],
            list(weights))

    def __len__(self) -> int:
        return self._numbers.samples

    def __getitem__(self, number: int) -> Any:
        return _one_of(self, number)

    def __getitems__(self, numbers: Sequence[int]) -> list[Any]:
        found = np.asarray(self._numbers.read(np.asarray(numbers, np.int64)))
        which = np.searchsorted(self._ends, found, side="right")
        samples: list[Any] = [None] * len(found)
        for one in np.unique(which).tolist():
            begin = self._ends[one - 1] if one else 0
            places = np.flatnonzero(which == one).tolist()
            rows = rows_of(self._made_of[0][one], found[places] - begin)
            for place, row in zip(places, rows, strict=True):
                samples[place] = row
        return samples

    def __reduce__(self) -> Any:
        return Mixture, self._made_of


def _one_of(dataset: Part | Mixture, number: int) -> Any:
    if not 0 <= number < len(dataset):
        raise IndexError(f"sample {number} of {len(dataset)}")
    return dataset.__getitems__([number])[0]
