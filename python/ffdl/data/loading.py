"""Reads samples, and makes batches from the samples."""

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
from .reading import is_arrays, rows_of, size_of
from .samplers import SampledOrder
from .several import Part
from .tables import TableSource

_NUMBERS = (np.ndarray, np.generic, bool, int, float, complex)


def collate(samples: Sequence[Any]) -> Any:
    """Makes a batch from a list of samples that all have the same structure and shapes.

    Numbers and arrays are stacked into an array. Samples that are tuples or lists become a tuple of
    batches, one per field. Samples that are dicts become a dict of batches. Samples of other types
    are returned as a list.
    If samples are tensors or contain tensors, collate() calls PyTorch's ``default_collate``. Raises
    InvalidArgument if the samples' shapes or lengths differ.
    """
    first = samples[0]
    torch = sys.modules.get("torch")
    try:
        if torch is not None and _holds_tensor(first, torch):
            samples = samples if isinstance(samples, list) else list(samples)
            is_plain = type(first) is torch.Tensor and first.layout is torch.strided
            if is_plain and not first.is_nested:
                return torch.stack(samples)  # the result of default_collate
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
            f"collate {len(samples)} samples: {error}; pass a collate_fn that converts samples to "
            "one structure and shape"
        ) from None
    return list(samples)


def _holds_tensor(sample: Any, torch: Any) -> bool:
    if isinstance(sample, torch.Tensor):
        return True
    fields = sample.values() if isinstance(sample, Mapping) else sample
    return isinstance(sample, (tuple, list, Mapping)) and any(
        _holds_tensor(field, torch) for field in fields)


def enter_process(
    dataset: Any, workers: int, seed: int, init: Callable[[int], Any] | None, number: int
) -> None:
    """Begins a loading process: sets what get_worker_info() of PyTorch returns, and calls `init`.

    If nothing has imported PyTorch in this process, nothing can call get_worker_info(), so it is
    not set.
    """
    if "torch" in sys.modules:
        from torch.utils.data._utils import worker

        worker._worker_info = worker.WorkerInfo(
            id=number, num_workers=workers, seed=seed + number, dataset=dataset)
    if init is not None:
        init(number)


class Loaded(NamedTuple):
    batch: Any  # None if all its samples are left out
    skipped: int = 0  # samples that are corrupt and left out


class Loading:
    """A callable that loads the samples with given numbers as a batch, in any process."""

    def __init__(
        self, dataset: Any, collate_fn: Callable[[list[Any]], Any] | None, seed: int | None,
        order: SampledOrder | None = None, partition_samples: int = 1,
    ) -> None:
        """order: maps the ledger's sample numbers to the data set's. None: no mapping."""
        self.samples = size_of(dataset) if order is None else order.samples
        self._order = order
        self._partition_samples = partition_samples  # used only with an order
        self._parts: list[Part] = []
        while isinstance(dataset, Part):  # a part is read as the whole is
            self._parts.append(dataset)
            dataset = dataset.whole
        self._dataset = dataset
        self._collate_fn = collate_fn
        self._seed = seed
        self._is_source = isinstance(dataset, DataSource)
        self._is_arrays = is_arrays(dataset)
        self._is_table = isinstance(dataset, TableSource)
        self._leaves_out = self._is_source or getattr(dataset, "leaves_out", False)

    def __call__(self, numbers: npt.NDArray[np.int64], first: tuple[int, int]) -> Loaded:
        """Loads the samples with these numbers, and makes a batch of them.

        first: (partition, position) of the first sample. Positions continue from epoch to epoch, so
        each epoch has other random numbers.
        """
        if self._seed is not None:
            seed_generators(zlib.crc32(f"{self._seed} {first}".encode()))
        if self._order is not None:
            numbers = self._order.numbers(numbers, self._epoch_of(*first))
        for part in self._parts:
            numbers = part.numbers(numbers)
        asked = len(numbers)
        if self._is_table and self._collate_fn is None:
            columns, left_out = self._dataset.read_left(numbers)
            return Loaded(columns if left_out < asked else None, left_out)
        if self._is_arrays and self._collate_fn is None:
            is_tuple = isinstance(self._dataset, tuple)
            arrays = self._dataset if is_tuple else (self._dataset,)
            taken = tuple(array[numbers] for array in arrays)
            return Loaded(taken if is_tuple else taken[0])
        samples = (
            self._dataset.read(numbers) if self._is_source else rows_of(self._dataset, numbers))
        if not self._leaves_out:
            return Loaded((self._collate_fn or collate)(samples))
        if isinstance(samples, list):
            samples = [sample for sample in samples if sample is not None]
        if len(samples) == 0:
            return Loaded(None, asked)
        left_out = asked - len(samples)
        if self._collate_fn is not None:
            samples = self._collate_fn(list(samples))
        elif not self._is_source:
            samples = collate(samples)
        return Loaded(samples, left_out)

    def _epoch_of(self, partition: int, begin: int) -> int:
        """Returns the epoch. In a partition of n samples, epoch e begins at position e * n."""
        before = partition * self._partition_samples
        return begin // min(self._partition_samples, self.samples - before)
