"""Sends batches between processes: small parts through a pipe, large parts in shared memory."""

from __future__ import annotations

import io
import mmap
import os
import pickle
import sys
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

LARGE_BYTES = 4096  # smaller ones are sent in the message
_ALIGNMENT = 64


class Packed(NamedTuple):
    """Describes a batch: its pickle if that is small, and the places of its parts in a file."""

    inline: bytes | None
    parts: list[tuple[int, int]]  # (offset, bytes): of the pickle if it is not inline, of arrays
    end: int  # of the last part


def pack(batch: Any, file: int) -> Packed:
    """Writes the large parts of a batch to `file`, from offset 0, and returns the description.

    The description of a batch is always small enough for a pipe, so its sender never waits for the
    receiver.
    """
    buffers: list[memoryview] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes < LARGE_BYTES:
            return True
        buffers.append(view)
        return False

    stream = io.BytesIO()
    _Pickler(stream, protocol=5, buffer_callback=is_small).dump(batch)
    pickled = stream.getbuffer()
    is_inline = pickled.nbytes < LARGE_BYTES
    parts = []
    end = 0
    for view in buffers if is_inline else [pickled, *buffers]:
        begin = -(-end // _ALIGNMENT) * _ALIGNMENT
        _write(file, view, begin)
        end = begin + view.nbytes
        parts.append((begin, view.nbytes))
    return Packed(bytes(pickled) if is_inline else None, parts, end)


def _write(file: int, view: memoryview, offset: int) -> None:
    done = 0
    while done < view.nbytes:
        done += os.pwrite(file, view[done:], offset + done)


class Slot:
    """A file in shared memory for the large parts of one batch at a time."""

    def __init__(self) -> None:
        self.file = os.memfd_create("ffdl-batch", os.MFD_CLOEXEC)
        self._mapping: mmap.mmap | None = None

    def unpack(self, packed: Packed) -> Any:
        if not packed.parts:
            return pickle.loads(packed.inline or b"")
        self._mapping = mmap.mmap(self.file, packed.end)
        views = [memoryview(self._mapping)[at : at + size] for at, size in packed.parts]
        pickled = views.pop(0) if packed.inline is None else packed.inline
        return pickle.loads(pickled, buffers=views)

    def is_free(self) -> bool:
        """Returns True if the program uses no array of the last batch in this file any more."""
        if self._mapping is None:
            return True
        try:
            self._mapping.close()
        except BufferError:
            return False
        self._mapping = None
        return True

    def close(self) -> None:
        """Closes the file. Arrays in use stay valid, because their memory stays mapped."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1

    def __del__(self) -> None:
        self.close()


class _Pickler(pickle.Pickler):
    """Pickles plain CPU tensors as NumPy arrays."""

    def reducer_override(self, thing: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is None or type(thing) is not torch.Tensor or not _is_plain(thing, torch):
            return NotImplemented
        array = thing.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
        return _tensor, (array, str(thing.dtype).removeprefix("torch."), tuple(thing.shape))


def _is_plain(tensor: Any, torch: Any) -> bool:
    return (
        tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not tensor.requires_grad
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def _tensor(array: npt.NDArray[np.uint8], dtype: str, shape: tuple[int, ...]) -> Any:
    import torch

    if not array.flags.writeable:
        array = array.copy()  # it was in the message, and is small
    return torch.from_numpy(array).view(getattr(torch, dtype)).view(shape)
