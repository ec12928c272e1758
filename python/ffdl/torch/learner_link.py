"""How gradients and weights pass between a model and a parameter server's learner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import torch

from .. import (
    DeviceLearner,
    Exhausted,
    GradientType,
    Learner,
    PullMode,
    PushResult,
    SampleRange,
    Timeout,
)
from . import device as gpu
from .sparse_gradient import SparseGradient

T = TypeVar("T")

Samples = SampleRange | tuple[int, int, int]
Gradients = list[torch.Tensor | None]  # of each parameter; None: zeros
Wait = Callable[[Callable[[float], T]], T]  # calls with time-outs until it has ended

_DTYPES = {
    GradientType.FLOAT32: torch.float32,
    GradientType.BFLOAT16: torch.bfloat16,
    GradientType.FLOAT16: torch.float16,
}


def _collect(parameters: list[torch.nn.Parameter], gradients: Gradients, to: torch.Tensor) -> None:
    pieces = [
        torch.zeros_like(p, requires_grad=False).reshape(-1) if gradient is None
        else gradient.to_dense().reshape(-1)
        for p, gradient in zip(parameters, gradients, strict=True)
    ]
    torch.cat(pieces, out=to)


class Link(Protocol):
    """Of one learner and one model. Threads: one at a time."""

    learner: Learner
    _wait: Wait[Any]

    def begin_mini_batch(self) -> None:
        """Waits while this learner is too far ahead."""

    def push(self, gradients: Gradients, samples: Sequence[Samples]) -> PushResult | None:
        """Commits the gradients with their samples, now or before the next push ends.

        What became of the last one that has ended; None: none has.
        """

    def push_rows(self, gradient: SparseGradient, samples: Samples) -> PushResult:
        """The same for rows, now."""
        try:
            return self._push_rows(gradient, samples)
        except Exhausted:  # together with what waits for the server: let it go first
            self._wait(self.learner.flush)
            return self._push_rows(gradient, samples)

    def _push_rows(self, gradient: SparseGradient, samples: Samples) -> PushResult:
        raise NotImplementedError

    def finish_push(self) -> PushResult | None:
        """Nothing is being pushed any more; as push()."""

    def pull(self, mode: PullMode) -> int:
        """The model's weights become those of the server, of the version that is returned."""

    def settle(self) -> None:
        """Nothing is under way any more."""


class HostLink(Link):
    """Of a model on the CPU: all of it is done when a call returns."""

    def __init__(
        self,
        learner: Learner,
        parameters: list[torch.nn.Parameter],
        weights: torch.Tensor,
        wait: Wait[Any],
    ) -> None:
        self.learner = learner
        self._parameters = parameters
        self._weights = weights
        self._wait = wait

    def begin_mini_batch(self) -> None:
        self._wait(self.learner.begin_mini_batch)

    def push(self, gradients: Gradients, samples: Sequence[Samples]) -> PushResult:
        slot = self._wait(self.learner.gradient_slot)
        _collect(self._parameters, gradients, torch.from_numpy(slot))
        return self.learner.push_ranges(samples)

    def _push_rows(self, gradient: SparseGradient, samples: Samples) -> PushResult:
        return self.learner.push_sparse(samples, tables=gradient.tables, dense=gradient.dense)

    def finish_push(self) -> None:
        pass

    def pull(self, mode: PullMode) -> int:
        return self.learner.pull(self._weights.numpy(), mode)

    def settle(self) -> None:
        pass


class DeviceLink(Link):
    """Of a model on a GPU.

    overlap: gradients leave and weights come while the next mini-batch computes. Gradients have two
    arrays in turn, and weights arrive in another one than the model's, so a mini-batch computes with
    weights that were asked for when the one before began (GaDei's loop, as in device_learner.h).
    Gradients leave as what the server keeps of them: with 16 bits they are rounded on the GPU.
    """

    def __init__(
        self,
        device_learner: DeviceLearner,
        parameters: list[torch.nn.Parameter],
        weights: torch.Tensor,
        wait: Wait[Any],
        overlap: bool,
    ) -> None:
        self.learner = device_learner.learner
        self._device_learner = device_learner
        self._parameters = parameters
        self._weights = weights
        self._device = weights.device
        self._wait = wait
        self._overlap = overlap
        dtype = _DTYPES[self.learner.gradient_type]
        self._gradients = [
            torch.zeros_like(weights, dtype=dtype) for _ in range(2 if overlap else 1)]
        self._arriving = torch.empty_like(weights) if overlap else weights
        self._is_pushing = False
        self._is_pulling = False

    def begin_mini_batch(self) -> None:
        if not self._overlap:  # which nobody waits beside
            self._wait(self.learner.begin_mini_batch)

    def push(self, gradients: Gradients, samples: Sequence[Samples]) -> PushResult | None:
        self._gradients.reverse()
        array = self._gradients[0]  # the other one may be leaving
        _collect(self._parameters, gradients, array)
        before = self.finish_push()
        with gpu.using(self._device):
            self._device_learner.start_push_ranges(
                array, samples, stream=gpu.stream_of(self._device))
        self._is_pushing = True
        return before if self._overlap else self.finish_push()

    def _push_rows(self, gradient: SparseGradient, samples: Samples) -> PushResult:
        with gpu.using(self._device):
            self._device_learner.start_push_sparse(
                samples, tables=gradient.tables, dense=gradient.dense,
                stream=gpu.stream_of(self._device))
        self._is_pushing = True
        result = self.finish_push()
        assert result is not None
        return result

    def finish_push(self) -> PushResult | None:
        if not self._is_pushing:
            return None
        try:
            result: PushResult = self._wait(self._device_learner.finish_push)
        except Timeout:  # it goes on
            raise
        except Exception:
            self._is_pushing = False
            raise
        self._is_pushing = False
        return result

    def pull(self, mode: PullMode) -> int:
        if self._is_pulling:
            version = self._finish_pull()
            self._weights.copy_(self._arriving)
        else:
            self._start_pull(self._weights, mode)
            version = self._finish_pull()
        if self._overlap and mode == PullMode.RELAXED:
            self._start_pull(self._arriving, mode)
        return version

    def settle(self) -> None:
        self.finish_push()
        if self._is_pulling:
            self._finish_pull()

    def _start_pull(self, to: torch.Tensor, mode: PullMode) -> None:
        with gpu.using(self._device):
            self._device_learner.start_pull(to, mode, stream=gpu.stream_of(self._device))
        self._is_pulling = True

    def _finish_pull(self) -> int:
        version: int = self._wait(self._device_learner.finish_pull)
        self._is_pulling = False
        return version
