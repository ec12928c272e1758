"""Returns the number of samples of any data set, and reads samples by their numbers."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from .._ffdl import DataSource
from ..errors import InvalidArgument


class Columns:
    """A data set whose samples are the rows of a dict of columns, as dicts."""

    def __init__(self, columns: dict[str, Any]) -> None:
        sizes = {name: len(column) for name, column in columns.items()}
        if len(set(sizes.values())) > 1:
            raise InvalidArgument(
                f"load from a 'dict': its columns have {sizes} rows; pass equal numbers of rows")
        self._columns = columns
        self._size = next(iter(sizes.values()))

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, number: int) -> dict[str, Any]:
        return {name: column[number] for name, column in self._columns.items()}


def by_rows(dataset: Any) -> Any:
    """Returns a dict of columns as a data set of rows, and other data sets unchanged.

    A dict whose keys are strings is a dict of columns. A dict whose keys are numbers is already a
    data set of samples.
    """
    if isinstance(dataset, dict) and dataset and all(isinstance(key, str) for key in dataset):
        return Columns(dataset)
    return dataset


def is_arrays(dataset: Any) -> bool:
    if isinstance(dataset, tuple) and dataset:
        return all(isinstance(array, np.ndarray) for array in dataset)
    return isinstance(dataset, np.ndarray)


def rows_of(dataset: Any, numbers: npt.NDArray[np.integer[Any]]) -> list[Any]:
    """Returns the samples with these `numbers` as a list. `dataset` must not be a DataSource."""
    if is_arrays(dataset):
        arrays = dataset if isinstance(dataset, tuple) else (dataset,)
        taken = [array[numbers] for array in arrays]
        return list(zip(*taken, strict=True)) if len(taken) > 1 else list(taken[0])
    if hasattr(dataset, "__getitems__"):
        return list(dataset.__getitems__(numbers.tolist()))
    return [dataset[number] for number in numbers.tolist()]


def size_of(dataset: Any) -> int:
    what = f"load from a '{type(dataset).__name__}'"
    if is_arrays(dataset):
        sizes = {len(array) for array in (dataset if isinstance(dataset, tuple) else (dataset,))}
        if len(sizes) > 1:
            raise InvalidArgument(
                f"{what}: arrays of {sorted(sizes)} rows; pass equal numbers of rows")
        return sizes.pop()
    if isinstance(dataset, DataSource):
        return dataset.samples
    is_map = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(dataset, torch.utils.data.IterableDataset):
        is_map = False  # it has inherited a __getitem__ that only raises
    if not is_map:
        raise InvalidArgument(
            f"{what}: it has no __len__ or no __getitem__; convert an iterable to a data set with "
            "ffdl.data.IterableShards"
        )
    return len(dataset)
