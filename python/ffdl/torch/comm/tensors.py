"""Converts tensors to arrays for a communicator, without a copy where possible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import torch
import torch.distributed as dist

import ffdl

_NATIVE = {
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
}
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_WIDER = {torch.uint8: torch.int16, torch.uint16: torch.int32, torch.uint32: torch.int64}
_UNSIGNED = {*_WIDER, torch.uint64}

_OPS = {
    dist.ReduceOp.SUM: ffdl.ReduceOp.SUM,
    dist.ReduceOp.AVG: ffdl.ReduceOp.MEAN,
    dist.ReduceOp.MIN: ffdl.ReduceOp.MIN,
    dist.ReduceOp.MAX: ffdl.ReduceOp.MAX,
    dist.ReduceOp.PRODUCT: ffdl.ReduceOp.PRODUCT,
}
# For bool: true if any is true, and true if all are.
_OPS_OF_BOOL = {
    dist.ReduceOp.SUM: ffdl.ReduceOp.MAX,
    dist.ReduceOp.MAX: ffdl.ReduceOp.MAX,
    dist.ReduceOp.PRODUCT: ffdl.ReduceOp.MIN,
    dist.ReduceOp.MIN: ffdl.ReduceOp.MIN,
}


def refuse(doing: str, observed: str) -> ffdl.InvalidArgument:
    """Returns the exception for a call that is invalid, regardless of the other ranks' calls."""
    return ffdl.InvalidArgument(f"{doing}: {observed}")


def check(doing: str, tensors: Iterable[torch.Tensor]) -> None:
    """Raises InvalidArgument if the communicator cannot access the elements of a tensor."""
    for tensor in tensors:
        if tensor.device.type != "cpu":
            raise refuse(
                doing,
                f"a tensor on '{tensor.device}'; copy it to the CPU, or name a back end for that "
                f"device too: init_process_group('cpu:ffdl,{tensor.device.type}:...')",
            )
        if tensor.layout != torch.strided or tensor.is_quantized:
            raise refuse(
                doing, f"a tensor of layout {tensor.layout}; give a dense one: x.to_dense()"
            )


def same_dtype(tensors: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Splits tensors into consecutive groups of one dtype, because operations accept only one."""
    return [list(run) for _, run in groupby(tensors, lambda tensor: tensor.dtype)]


def total(tensors: Iterable[torch.Tensor]) -> int:
    """Returns the total number of elements in all tensors."""
    return sum(tensor.numel() for tensor in tensors)


def same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Returns True if the two tensors may share elements in memory."""
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def reduction(doing: str, dtype: torch.dtype, op: Any) -> ffdl.ReduceOp:
    """Maps `op` of c10d to a ReduceOp. Raises InvalidArgument if `dtype` does not allow `op`."""
    known = _OPS_OF_BOOL if dtype == torch.bool else _OPS
    found = next((ours for theirs, ours in known.items() if op == theirs), None)
    compares = found in (ffdl.ReduceOp.MIN, ffdl.ReduceOp.MAX) and dtype != torch.bool
    if found is None:
        wanted = ", ".join(str(theirs).rsplit(".", 1)[1] for theirs in known)
        raise refuse(doing, f"reduction {op} of {dtype}; use one of {wanted}")
    if dtype.is_complex and found not in (ffdl.ReduceOp.SUM, ffdl.ReduceOp.MEAN):
        raise refuse(doing, f"{found.name} of {dtype}; use SUM or AVG for complex numbers")
    if dtype == torch.uint64 and compares:
        raise refuse(doing, f"{found.name} of {dtype}; give int64")
    if not (dtype in _NATIVE or dtype in _UNSIGNED or dtype.is_complex or dtype == torch.bool):
        raise refuse(doing, f"elements of {dtype}; convert them, e.g. to torch.float32")
    return found


def copy_to(target: torch.Tensor, given: torch.Tensor) -> None:
    """Copies `given` to `target` without autograd. `target` may be an inference tensor."""
    with torch.inference_mode(target.is_inference()):
        target.detach().copy_(given.detach())


def divide(tensor: torch.Tensor, divisor: int) -> None:
    """Divides a tensor of integers in place, and rounds towards zero."""
    if tensor.dtype in _UNSIGNED:  # PyTorch does not divide all of them
        copy_to(tensor, torch.from_numpy(tensor.detach().numpy() // divisor))
    else:
        copy_to(tensor, tensor.detach().div(divisor, rounding_mode="trunc"))


class Elements:
    """The arrays that an operation reads or writes, one array for each tensor.

    The arrays have the order of the tensors. If an operation cannot use a tensor in place, the
    array is a copy, and put_back() writes the copy to the tensor.
    compared: True if the operation compares elements, as a maximum does. To compare unsigned
    integers, they are converted to wider integers.
    """

    def __init__(self, tensors: Sequence[torch.Tensor], *, compared: bool = False) -> None:
        self.arrays: list[Any] = []
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        for tensor in tensors:
            self._add(tensor.detach(), compared)

    def put_back(self) -> None:
        """After an operation, writes each array that is a copy to its tensor."""
        for tensor, copy in self._copies:
            copy_to(tensor, copy)

    def _add(self, tensor: torch.Tensor, compared: bool) -> None:
        dtype = tensor.dtype
        if dtype not in _NATIVE:
            if dtype.is_complex:
                tensor = torch.view_as_real(tensor.resolve_conj())
            elif not compared or dtype == torch.bool:
                tensor = tensor.view(_BITS[dtype.itemsize])
        through = _WIDER.get(tensor.dtype, tensor.dtype)
        if through != tensor.dtype or not tensor.is_contiguous() or tensor.is_neg():
            copy = tensor.to(through, copy=True, memory_format=torch.contiguous_format)
            self._copies.append((tensor, copy))
            tensor = copy
        # NumPy is faster if it has the dtype.
        self.arrays.append(tensor if tensor.dtype == torch.bfloat16 else tensor.numpy())
