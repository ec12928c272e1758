"""The functions that differ for a model in a GPU's memory. All other code is the same.

ffdl orders its work after the GPU's default stream. PyTorch computes on its current stream, which
may be another stream. Tests run without a GPU and replace these functions, so call them through the
module.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import torch

from .. import InvalidArgument


def is_gpu(device: torch.device) -> bool:
    """True for a device that ffdl handles as a GPU: an NVIDIA GPU."""
    return device.type == "cuda"


def device_of(doing: str, tensors: Iterable[tuple[str, torch.Tensor]]) -> torch.device:
    """Returns the device that holds all tensors: the CPU, or a GPU.

    tensors: pairs of name and tensor.

    Raises InvalidArgument for several devices, and for other devices. The message begins with
    `doing`.
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
                f"{doing}: '{found[0]}' is on '{found[1]}', and '{name}' on '{device}'; move all "
                "of it to one device, e.g. with "
                f"model.to('{device if is_gpu(device) else found[1]}')"
            )
    return torch.device("cpu") if found is None else found[1]


def wait_for_current_stream(device: torch.device) -> None:
    """Makes later work of ffdl wait for the work on PyTorch's current stream.

    Call it before ffdl reads computed values. Only the GPU's default stream waits.
    """
    if is_gpu(device):
        current, default = _streams(device)
        if current != default:
            default.wait_stream(current)


def wait_for_default_stream(device: torch.device) -> None:
    """Makes later work on the current stream wait for ffdl's work on the default stream.

    Call it before memory is written that ffdl may still read. Only the current stream waits.
    """
    if is_gpu(device):
        current, default = _streams(device)
        if current != default:
            current.wait_stream(default)


def _streams(device: torch.device) -> tuple[torch.cuda.Stream, torch.cuda.Stream]:
    return torch.cuda.current_stream(device), torch.cuda.default_stream(device)


def stream_of(device: torch.device) -> int:
    """Returns PyTorch's current stream on the device, as the number that Learner expects."""
    return int(torch.cuda.current_stream(device).cuda_stream)


def using(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Makes the GPU PyTorch's current device, because only its tensors can be exported."""
    return torch.cuda.device(device) if is_gpu(device) else contextlib.nullcontext()


def zeros(count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Returns a new array of zeros on the device."""
    return torch.zeros(count, dtype=dtype, device=device)


def seed(device: torch.device, number: int) -> None:
    """Seeds PyTorch's generators of the CPU and of the model's GPU."""
    # torch.manual_seed() is slow: it remembers each call for all devices.
    torch.default_generator.manual_seed(number)
    if is_gpu(device):
        torch.cuda.default_generators[device.index].manual_seed(number)
