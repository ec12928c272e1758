"""Samples are read and become a batch."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._ffdl import DataSource
from ..errors import InvalidArgument
from .generators import seed_generators
from .tables import TableSource

_NUMBERS = (np.ndarray, np.generic, bool, int, float, complex)


def collate(samples: Sequence[Any]) -> Any:
    """A batch of samples of one form: arrays are stacked, fields and keys gathered one by one.

    Numbers and arrays become an array, tensors a tensor (as PyTorch's ``default_collate`` makes it,
    which does all where a sample holds one), tuples a tuple of batches, dicts a dict of batches, all
    else a list.
    Raises InvalidArgument where shapes or lengths differ.
    """
    first = samples[0]
    torch = sys.modules.get("torch")
    try:
        if torch is not None and _holds_tensor(first, torch):
            samples = samples if isinstance(samples, list) else list(samples)
            if type(first) is torch.Tensor and first.layout is torch.strided and not first.is_nested:
                return torch.stack(samples)  # what default_collate comes to
            return torch.utils.data.default_collate(samples)
        if isinstance(first, _NUMBERS):
            return np.stack([np.asarray(sample) for sample in samples])
        if isinstance(first, Mapping):
            return {key: collate([sample[key] for sample in samples]) for key in first}
        if isinstance(first, (tuple, list)):
            fields = [collate(field) for field in zip(*samples, strict=True)]
            return type(first)(*fields) if hasattr(first, "_fields") else tuple(fields)
    except (ValueError, KeyError, RuntimeError) as error:  # the last is PyTorch's
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(
            f"collate {len(samples)} samples: {error}; give a collate_fn that brings them to one "
            "form"
        ) from None
    return list(samples)


def _holds_tensor(sample: Any, torch: Any) -> bool:
    if isinstance(sample, torch.Tensor):
        return True
    fields = sample.values() if isinstance(sample, Mapping) else sample
    return isinstance(sample, (tuple, list, Mapping)) and any(
        _holds_tensor(field, torch) for field in fields)


class Loaded(NamedTuple):
    batch: Any  # None where all of its samples are left out
    skipped: int = 0  # samples that are corrupt and left out


class Loading:
    """How samples of a data set become a batch, here or in another process."""

    def __init__(
        self, dataset: Any, collate_fn: Callable[[list[Any]], Any] | None, seed: int | None
    ) -> None:
        self._dataset = dataset
        self._collate_fn = collate_fn
        self._seed = seed
        self._is_source = isinstance(dataset, DataSource)
        self._is_arrays = _is_arrays(dataset)
        self._is_table = isinstance(dataset, TableSource)
        self._gives_several = hasattr(dataset, "__getitems__")
        self.samples = _size_of(dataset)

    def __call__(self, numbers: npt.NDArray[np.int64], first: tuple[int, int]) -> Loaded:
        """first: partition and position of the first sample, which no other epoch has."""
        if self._seed is not None:
            seed_generators(zlib.crc32(f"{self._seed} {first}".encode()))
        if not self._is_source:
            return Loaded(self._batch_of(numbers))
        samples = self._dataset.read(numbers)
        if isinstance(samples, list):
            samples = [sample for sample in samples if sample is not None]
        skipped = len(numbers) - len(samples)
        if len(samples) == 0:
            return Loaded(None, skipped)
        return Loaded(samples if self._collate_fn is None else self._collate_fn(list(samples)), skipped)

    def _batch_of(self, numbers: npt.NDArray[np.int64]) -> Any:
        dataset = self._dataset
        if self._is_arrays:
            arrays = dataset if isinstance(dataset, tuple) else (dataset,)
            taken = tuple(array[numbers] for array in arrays)
            if self._collate_fn is None:
                return taken if isinstance(dataset, tuple) else taken[0]
            samples = list(zip(*taken, strict=True)) if len(taken) > 1 else list(taken[0])
        elif self._is_table and self._collate_fn is None:
            return dataset.read(numbers)
        elif self._gives_several:
            samples = dataset.__getitems__(numbers.tolist())
        else:
            samples = [dataset[number] for number in numbers.tolist()]
        return (self._collate_fn or collate)(samples)


def _is_arrays(dataset: Any) -> bool:
    if isinstance(dataset, tuple) and dataset:
        return all(isinstance(array, np.ndarray) for array in dataset)
    return isinstance(dataset, np.ndarray)


def _size_of(dataset: Any) -> int:
    what = f"load from a '{type(dataset).__name__}'"
    if _is_arrays(dataset):
        sizes = {len(array) for array in (dataset if isinstance(dataset, tuple) else (dataset,))}
        if len(sizes) > 1:
            raise InvalidArgument(f"{what}: arrays of {sorted(sizes)} rows; give as many of each")
        return sizes.pop()
    if isinstance(dataset, DataSource):
        return dataset.samples
    is_map = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(dataset, torch.utils.data.IterableDataset):
        is_map = False  # it has inherited a __getitem__ that only raises
    if not is_map:
        raise InvalidArgument(
            f"{what}: it has no __len__ or no __getitem__; what can only be iterated over becomes a "
            "data set by ffdl.data.IterableShards"
        )
    return len(dataset)


