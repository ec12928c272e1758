"""What the collectives of c10d are made of: operations of a communicator on tensors."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import ffdl

from .tensors import Elements, copy_to, same_memory

# The operations in which the sign of an element matters.
COMPARES = (ffdl.ReduceOp.MIN, ffdl.ReduceOp.MAX)


def even(tensors: list[torch.Tensor]) -> bool:
    """Whether all have as many elements."""
    return len({tensor.numel() for tensor in tensors}) == 1


def apart(given: torch.Tensor, outputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """`given`, or a copy where an output may lie in the same memory."""
    return given.clone() if any(same_memory(given, out) for out in outputs) else given


def all_gather(
    communicator: ffdl.Communicator,
    outputs: list[torch.Tensor],
    own: torch.Tensor,
    timeout_s: float,
) -> None:
    """`outputs`, one after another, become the `own` of rank 0, 1, .., all of one size."""
    out = Elements(outputs)
    given = Elements([apart(own, outputs)])
    communicator.all_gather(given.arrays, out.arrays, timeout_s)
    out.put_back()


def reduce(
    communicator: ffdl.Communicator,
    given: torch.Tensor,
    out: torch.Tensor | None,
    root: int,
    how: ffdl.ReduceOp,
    timeout_s: float,
) -> None:
    """`out` of the root, None elsewhere, becomes the reduction of every `given`."""
    compared = how in COMPARES
    if out is not None:
        given = apart(given, [out])
    written = Elements([] if out is None else [out], compared=compared)
    read = Elements([given], compared=compared)
    communicator.reduce(
        read.arrays, written.arrays or None, root=root, op=how, timeout_s=timeout_s
    )
    written.put_back()


def reduce_scatter(
    communicator: ffdl.Communicator,
    output: torch.Tensor,
    inputs: list[torch.Tensor],
    how: ffdl.ReduceOp,
    timeout_s: float,
) -> None:
    """`output` of rank r becomes block r of the reduction of every `inputs`, all of one size."""
    compared = how in COMPARES
    out = Elements([output], compared=compared)
    given = Elements([apart(one, [output]) for one in inputs], compared=compared)
    communicator.reduce_scatter(given.arrays, out.arrays, how, timeout_s)
    out.put_back()


def exchange(
    communicator: ffdl.Communicator,
    outputs: list[torch.Tensor],
    inputs: list[torch.Tensor],
    timeout_s: float,
) -> None:
    """Blocks of any size, between two ranks at a time: in turn t, those whose sum is t."""
    rank, size = communicator.rank, communicator.size
    inputs = [apart(one, outputs) for one in inputs]
    for turn in range(size):
        peer = (turn - rank) % size
        if peer == rank:
            copy_to(outputs[rank], inputs[rank].reshape(outputs[rank].shape))
            continue
        for sends in (rank < peer, rank > peer):  # the lower rank sends first
            elements = Elements([inputs[peer] if sends else outputs[peer]])
            if sends:
                communicator.send(elements.arrays, to=peer, timeout_s=timeout_s)
            else:
                communicator.recv(elements.arrays, from_=peer, timeout_s=timeout_s)
                elements.put_back()


def header(dtype: torch.dtype, tag: int) -> Any:
    """What goes before a message, so that the other can see whether it is the one it wants."""
    return np.array([zlib.crc32(str(dtype).encode()), tag], np.int64).view(np.int8)


def as_bytes(tensor: torch.Tensor) -> Any:
    """The memory of a contiguous tensor."""
    return tensor.reshape(-1).view(torch.int8).numpy()
