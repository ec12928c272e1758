"""Arrays in shared memory, which collectives within one host need not copy."""

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

    shape: as in NumPy, with at least one element. Pass the array to
    ``Communicator.register_memory``. Then an all_reduce in place of the whole array copies nothing,
    if every rank has registered its array. The memory lives as long as the array, its views and the
    tensors made of it (``torch.from_numpy``). Raises Exhausted (no room), InvalidArgument (no
    element).
    """
    dtype = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    if count < 1 or np.min(shape) < 1:
        raise InvalidArgument(
            f"make a shared array: its shape is {shape}; give at least one element")
    memory = SharedMemory.allocate(count * dtype.itemsize)
    return np.ndarray(shape, dtype, buffer=memoryview(memory))
