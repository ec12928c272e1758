"""What is different where a model lies in a GPU's memory; all else is the same code.

ffdl comes after what the GPU's default stream was given, and PyTorch computes on its current
stream, which may be another one. Tests, which have no GPU, put others in the place of these
functions: call them through the module.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import torch

from .. import InvalidArgument


def is_gpu(device: torch.device) -> bool:
    """Whether ffdl takes it as a GPU's: those of NVIDIA are all that it knows."""
    return device.type == "cuda"


def device_of(doing: str, tensors: Iterable[tuple[str, torch.Tensor]]) -> torch.device:
    """The one that all of them, each with its name, lie on: the CPU, or a GPU.

    Raises InvalidArgument for several, and for others, as the error of `doing`.
    """
    found: tuple[str, torch.device] | None = None
    for name, tensor in tensors:
        device = tensor.device
        if device.type != "cpu" and not is_gpu(device):
            raise InvalidArgument(
                f"{doing}: '{name}' lies on '{device}'; move it to the CPU or to a GPU of NVIDIA's"
            )
        if found is None:
            found = name, device
        elif device != found[1]:
            raise InvalidArgument(
                f"{doing}: '{found[0]}' lies on '{found[1]}', and '{name}' on '{device}'; move all "
                f"of it to one side, e.g. with model.to('{device if is_gpu(device) else found[1]}')"
            )
    return torch.device("cpu") if found is None else found[1]


def wait_for_current_stream(device: torch.device) -> None:
    """What PyTorch's current stream was given comes before what ffdl does from now on.

    To be called before ffdl reads what was computed. Nothing blocks but the GPU's default stream.
    """
    if is_gpu(device):
        current, default = _streams(device)
        if current != default:
            default.wait_stream(current)


def wait_for_default_stream(device: torch.device) -> None:
    """What ffdl gave the default stream comes before what the current stream is given from now on.

    To be called before what ffdl may still read is written. Nothing blocks but that stream.
    """
    if is_gpu(device):
        current, default = _streams(device)
        if current != default:
            current.wait_stream(default)


def _streams(device: torch.device) -> tuple[torch.cuda.Stream, torch.cuda.Stream]:
    return torch.cuda.current_stream(device), torch.cuda.default_stream(device)


def stream_of(device: torch.device) -> int:
    """PyTorch's current stream there, as DeviceLearner takes it."""
    return int(torch.cuda.current_stream(device).cuda_stream)


def using(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Within it the GPU is PyTorch's current one: it shows tensors of that one alone to others."""
    return torch.cuda.device(device) if is_gpu(device) else contextlib.nullcontext()


def zeros(count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A new array there."""
    return torch.zeros(count, dtype=dtype, device=device)


def seed(device: torch.device, number: int) -> None:
    """Of the generators that the model's code draws from, that of the CPU among them."""
    # torch.manual_seed() takes long: it remembers each call for all devices.
    torch.default_generator.manual_seed(number)
    if is_gpu(device):
        torch.cuda.default_generators[device.index].manual_seed(number)
