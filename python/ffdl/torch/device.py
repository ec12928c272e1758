"""The differences for a model in a GPU's memory; all else is the same code.

ffdl follows the work on the GPU's default stream, and PyTorch computes on its current stream, which
may be another one. Tests, which have no GPU, replace these functions: call them through the module.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import torch

from .. import InvalidArgument


def is_gpu(device: torch.device) -> bool:
    """True for a device that ffdl handles as a GPU: only those of NVIDIA."""
    return device.type == "cuda"


def device_of(doing: str, tensors: Iterable[tuple[str, torch.Tensor]]) -> torch.device:
    """Returns the one device of all tensors, each with its name: the CPU, or a GPU.

    Raises InvalidArgument for several, and for others, as the error of `doing`.
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
    """Makes later work of ffdl follow the work on PyTorch's current stream.

    Call it before ffdl reads computed values. Only the GPU's default stream waits.
    """
    if is_gpu(device):
        current, default = _streams(device)
        if current != default:
            default.wait_stream(current)


def wait_for_default_stream(device: torch.device) -> None:
    """Makes later work on the current stream follow ffdl's work on the default stream.

    Call it before memory is written that ffdl may still read. Only that stream waits.
    """
    if is_gpu(device):
        current, default = _streams(device)
        if current != default:
            current.wait_stream(default)


def _streams(device: torch.device) -> tuple[torch.cuda.Stream, torch.cuda.Stream]:
    return torch.cuda.current_stream(device), torch.cuda.default_stream(device)


def stream_of(device: torch.device) -> int:
    """Returns PyTorch's current stream there, as Learner takes it."""
    return int(torch.cuda.current_stream(device).cuda_stream)


def using(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Makes the GPU PyTorch's current one: only its tensors can be exported then."""
    return torch.cuda.device(device) if is_gpu(device) else contextlib.nullcontext()


def zeros(count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Returns a new array there."""
    return torch.zeros(count, dtype=dtype, device=device)


def seed(device: torch.device, number: int) -> None:
    """Seeds PyTorch's generators of the CPU and of the model's GPU."""
    # torch.manual_seed() is slow: it remembers each call for all devices.
    torch.default_generator.manual_seed(number)
    if is_gpu(device):
        torch.cuda.default_generators[device.index].manual_seed(number)
