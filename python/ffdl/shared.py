"""Allocates arrays in shared memory, which collectives within one host need not copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ._ffdl import SharedMemory
from .errors import InvalidArgument


def shared_array(
    shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float32
) -> npt.NDArray[Any]:
    """Returns a zeroed, C-contiguous NumPy array in its own SharedMemory.

    shape: as in NumPy, with at least one element. To avoid copies, pass the array to
    ``Communicator.register_memory``. If every rank has registered its array, an in-place all_reduce
    of the whole array makes no copies. The array's memory is freed when all arrays, views and
    tensors (``torch.from_numpy``) that use it are deleted. Raises Exhausted (no room),
    InvalidArgument (no element).
    """
    dtype = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    if count < 1 or np.min(shape) < 1:
        raise InvalidArgument(
            f"make a shared array: its shape is {shape}; give at least one element")
    memory = SharedMemory.allocate(count * dtype.itemsize)
    return np.ndarray(shape, dtype, buffer=memoryview(memory))
