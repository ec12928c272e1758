"""Applies a communicator's operations to tensors, to implement c10d's collectives."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import ffdl

from .tensors import Elements, copy_to, divide, refuse, same_memory

# The operations in which the sign of an element matters.
_COMPARES = (ffdl.ReduceOp.MIN, ffdl.ReduceOp.MAX)


def even(tensors: list[torch.Tensor]) -> bool:
    """Returns True if all tensors have the same number of elements."""
    return len({tensor.numel() for tensor in tensors}) == 1


def apart(given: torch.Tensor, outputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """Returns `given`, or a copy if an output may share memory with `given`."""
    return given.clone() if any(same_memory(given, out) for out in outputs) else given


def all_gather(
    communicator: ffdl.Communicator,
    outputs: list[torch.Tensor],
    own: torch.Tensor,
    timeout_s: float,
) -> None:
    """Gathers `own` of all ranks, which have the same size, into `outputs`, in rank order."""
    out = Elements(outputs)
    given = Elements([apart(own, outputs)])
    communicator.all_gather(given.arrays, out.arrays, timeout_s)
    out.put_back()


def _is_integer_mean(how: ffdl.ReduceOp, dtype: torch.dtype) -> bool:
    """True for a mean of integers. Communicators have none, so this module computes the mean."""
    return how == ffdl.ReduceOp.MEAN and not (dtype.is_floating_point or dtype.is_complex)


def _sent_as(how: ffdl.ReduceOp, dtype: torch.dtype) -> ffdl.ReduceOp:
    return ffdl.ReduceOp.SUM if _is_integer_mean(how, dtype) else how


def _finish(out: torch.Tensor, how: ffdl.ReduceOp, ranks: int) -> None:
    if _is_integer_mean(how, out.dtype):
        divide(out, ranks)


def all_reduce(
    communicator: ffdl.Communicator,
    tensors: list[torch.Tensor],
    how: ffdl.ReduceOp,
    timeout_s: float,
) -> None:
    """Reduces tensors of one dtype over all ranks, in place."""
    elements = Elements(tensors, compared=how in _COMPARES)
    communicator.all_reduce(elements.arrays, _sent_as(how, tensors[0].dtype), timeout_s)
    elements.put_back()
    for tensor in tensors:
        _finish(tensor, how, communicator.size)


def all_reduce_sparse(
    communicator: ffdl.Communicator, tensor: torch.Tensor, how: ffdl.ReduceOp, timeout_s: float
) -> None:
    """Replaces a sparse tensor by its sum or mean over the ranks, which exchange all elements."""
    own = tensor.detach().coalesce()
    ranks = communicator.size
    shape = zlib.crc32(repr((own.sparse_dim(), *own.shape)).encode())
    told = torch.empty(ranks, 2, dtype=torch.int64)
    all_gather(communicator, [told], torch.tensor([own._nnz(), shape]), timeout_s)
    if not (told[:, 1] == shape).all():
        raise refuse(
            f"all_reduce a sparse tensor of shape {tuple(own.shape)}",
            "another rank has another shape; pass tensors of equal shape and sparse_dim",
        )
    counts = told[:, 0].tolist()
    parts = []
    for mine in (own.indices().t(), own.values()):  # as many rows on all ranks
        padded = mine.new_zeros(max(counts), *mine.shape[1:])
        padded[: len(mine)] = mine
        gathered = padded.new_empty(ranks, *padded.shape)
        all_gather(communicator, [gathered], padded, timeout_s)
        parts.append(torch.cat([rows[:count] for rows, count in zip(gathered, counts)]))
    result = torch.sparse_coo_tensor(parts[0].t(), parts[1], own.shape).coalesce()
    if how == ffdl.ReduceOp.MEAN:
        result.values().div_(ranks) if own.is_floating_point() else divide(result.values(), ranks)
    with torch.no_grad():
        tensor.copy_(result)


def reduce(
    communicator: ffdl.Communicator,
    given: torch.Tensor,
    out: torch.Tensor | None,
    root: int,
    how: ffdl.ReduceOp,
    timeout_s: float,
) -> None:
    """Reduces `given` of all ranks into `out` of the root. On the other ranks, `out` is None."""
    compared = how in _COMPARES
    if out is not None:
        given = apart(given, [out])
    written = Elements([] if out is None else [out], compared=compared)
    read = Elements([given], compared=compared)
    sent_as = _sent_as(how, given.dtype)
    communicator.reduce(
        read.arrays, written.arrays or None, root=root, op=sent_as, timeout_s=timeout_s
    )
    written.put_back()
    if out is not None:
        _finish(out, how, communicator.size)


def reduce_scatter(
    communicator: ffdl.Communicator,
    output: torch.Tensor,
    inputs: list[torch.Tensor],
    how: ffdl.ReduceOp,
    timeout_s: float,
) -> None:
    """Reduces `inputs` of all ranks, and writes block r of the result to `output` of rank r.

    All blocks of the result have the same size.
    """
    compared = how in _COMPARES
    out = Elements([output], compared=compared)
    given = Elements([apart(one, [output]) for one in inputs], compared=compared)
    communicator.reduce_scatter(given.arrays, out.arrays, _sent_as(how, output.dtype), timeout_s)
    out.put_back()
    _finish(output, how, communicator.size)


def exchange(
    communicator: ffdl.Communicator,
    outputs: list[torch.Tensor],
    inputs: list[torch.Tensor],
    timeout_s: float,
) -> None:
    """Exchanges blocks of any size between all pairs of ranks.

    In turn t, each rank exchanges blocks with rank (t - rank) % size, so that all pairs take part.
    """
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


HEADER_WORDS = 3  # of 64 bits


def header(tensor: torch.Tensor, tag: int) -> Any:
    """Returns the header of a tensor's message: dtype, tag, and size in bytes."""
    dtype = zlib.crc32(str(tensor.dtype).encode())
    return np.array([dtype, tag, tensor.numel() * tensor.element_size()], np.int64)


def as_bytes(tensor: torch.Tensor) -> Any:
    """Returns the memory of a contiguous tensor as an array of bytes."""
    return tensor.reshape(-1).view(torch.int8).numpy()
