"""Functions whose work differs between models on the CPU and models on a GPU.

On a GPU, ffdl's work waits only for earlier work on the default stream. PyTorch computes on its
current stream, which may be another stream, so the two streams must wait for each other. Tests
without a GPU replace the functions of this module, so import the module, not a function.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import torch

from .. import InvalidArgument


def is_gpu(device: torch.device) -> bool:
    """Returns True if the device is an NVIDIA GPU. ffdl supports no other GPUs."""
    return device.type == "cuda"


def device_of(doing: str, tensors: Iterable[tuple[str, torch.Tensor]]) -> torch.device:
    """Returns the device that contains all `tensors`: the CPU, or one GPU.

    tensors: pairs of a name and a tensor.

    Raises InvalidArgument if the tensors are on several devices, or on a device other than the CPU
    or an NVIDIA GPU. The error message begins with `doing`.
    """
    found: tuple[str, torch.device] | None = None
    for name, tensor in tensors:
        device = tensor.device
        if device.type != "cpu" and not is_gpu(device):
            raise InvalidArgument(
                f"{doing}: '{name}' is on '{device}'; move it to the CPU or to an NVIDIA GPU"
            )
        if found is None:
            found = name, device
        elif device != found[1]:
            raise InvalidArgument(
                f"{doing}: '{found[0]}' is on '{found[1]}', and '{name}' on '{device}'; move "
                "the whole model to one device, e.g. with "
                f"model.to('{device if is_gpu(device) else found[1]}')"
            )
    return torch.device("cpu") if found is None else found[1]


def wait_for_current_stream(device: torch.device) -> None:
    """Makes ffdl's later work wait for earlier work on PyTorch's current stream.

    Call this function before ffdl reads values that PyTorch computes. The GPU's default stream
    waits, not the caller.
    """
    if is_gpu(device):
        current, default = _streams(device)
        if current != default:
            default.wait_stream(current)


def wait_for_default_stream(device: torch.device) -> None:
    """Makes later work on the current stream wait for ffdl's earlier work on the default stream.

    Call this function before PyTorch writes memory that ffdl may still read. The current stream
    waits, not the caller.
    """
    if is_gpu(device):
        current, default = _streams(device)
        if current != default:
            current.wait_stream(default)


def _streams(device: torch.device) -> tuple[torch.cuda.Stream, torch.cuda.Stream]:
    return torch.cuda.current_stream(device), torch.cuda.default_stream(device)


def stream_of(device: torch.device) -> int:
    """Returns the cudaStream_t of PyTorch's current stream on the device, as an integer."""
    return int(torch.cuda.current_stream(device).cuda_stream)


def using(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Returns a context in which a GPU is current, so that the GPU's tensors can be exported."""
    return torch.cuda.device(device) if is_gpu(device) else contextlib.nullcontext()


def zeros(count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Returns a new tensor of zeros on the device."""
    return torch.zeros(count, dtype=dtype, device=device)


def seed(device: torch.device, number: int) -> None:
    """Seeds PyTorch's CPU generator and, if the device is a GPU, the GPU's generator."""
    # torch.manual_seed() is slow: it remembers each call for all devices.
    torch.default_generator.manual_seed(number)
    if is_gpu(device):
        torch.cuda.default_generators[device.index].manual_seed(number)
