"""Transfers gradients and weights between a model and a learner of a parameter server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import torch

from ... import (
    Exhausted,
    Gradient,
    Learner,
    PullMode,
    PushResult,
    SampleRange,
    Timeout,
)
from .. import device as gpu
from .sparse_gradient import SparseGradient

T = TypeVar("T")

Samples = SampleRange | tuple[int, int, int]
Gradients = list[torch.Tensor | None]  # of each parameter; None: zeros
Wait = Callable[[Callable[[float], T]], T]  # calls with time-outs until it has ended


def _collect(parameters: list[torch.nn.Parameter], gradients: Gradients, to: torch.Tensor) -> None:
    pieces = [
        torch.zeros_like(p, requires_grad=False).reshape(-1) if gradient is None
        else gradient.to_dense().reshape(-1)
        for p, gradient in zip(parameters, gradients, strict=True)
    ]
    torch.cat(pieces, out=to)


class Link(Protocol):
    """The link between one learner and one model. Threads: one thread at a time."""

    learner: Learner
    _wait: Wait[Any]

    def begin_mini_batch(self) -> None:
        """Waits while this learner is too far ahead of the other learners."""

    def push(self, gradients: Gradients, samples: Sequence[Samples]) -> PushResult | None:
        """Commits the gradients with their samples, at the latest in the next push().

        Returns the result of a push that ended during this call, or None if no push ended.
        """

    def push_rows(self, gradient: SparseGradient, samples: Sequence[Samples]) -> PushResult:
        """Commits a sparse gradient with its samples before the call returns."""
        try:
            return self._push_rows(gradient, samples)
        except Exhausted:  # together with the gradient that waits for the server: push that first
            self._wait(self.learner.flush)
            return self._push_rows(gradient, samples)

    def _push_rows(self, gradient: SparseGradient, samples: Sequence[Samples]) -> PushResult:
        raise NotImplementedError

    def finish_push(self) -> PushResult | None:
        """Waits for the push in progress, and returns its result, or None without such a push."""

    def pull(self, mode: PullMode) -> int:
        """Copies the server's weights to the model, and returns the version of the weights."""

    def settle(self) -> None:
        """Waits until all transfers have ended."""


class HostLink(Link):
    """The link of a model on the CPU. Each call returns after its transfers have ended."""

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
        return self.learner.push(Gradient.slot(), samples)

    def _push_rows(self, gradient: SparseGradient, samples: Sequence[Samples]) -> PushResult:
        return self.learner.push(Gradient.sparse(gradient.tables, gradient.parts), samples)

    def finish_push(self) -> None:
        pass

    def pull(self, mode: PullMode) -> int:
        return self.learner.pull(self._weights.numpy(), mode)

    def settle(self) -> None:
        pass


class DeviceLink(Link):
    """The link of a model on a GPU. The learner transfers to and from the same GPU.

    overlap: if True, gradients and weights are transferred while the next mini-batch computes. With
    overlap, two arrays store gradients in turn, and new weights arrive in a separate array. So a
    mini-batch uses weights that were requested when the previous mini-batch began. The header
    learner.h shows this loop, which is from the GaDei paper. Gradients are sent in the server's
    ``gradient_type``. If the gradient type has 16 bits, the GPU rounds the gradients before the
    transfer.
    """

    def __init__(
        self,
        learner: Learner,
        parameters: list[torch.nn.Parameter],
        weights: torch.Tensor,
        wait: Wait[Any],
        overlap: bool,
    ) -> None:
        self.learner = learner
        self._transfers = learner  # its calls that start and finish; tests replace it
        self._parameters = parameters
        self._weights = weights
        self._device = weights.device
        self._wait = wait
        self._overlap = overlap
        dtype = getattr(torch, learner.gradient_type)
        self._gradients = [
            torch.zeros_like(weights, dtype=dtype) for _ in range(2 if overlap else 1)]
        self._arriving = torch.empty_like(weights) if overlap else weights
        self._is_pushing = False
        self._is_pulling = False

    def begin_mini_batch(self) -> None:
        if not self._overlap:  # no computation runs beside it
            self._wait(self.learner.begin_mini_batch)

    def push(self, gradients: Gradients, samples: Sequence[Samples]) -> PushResult | None:
        self._gradients.reverse()
        array = self._gradients[0]  # the other one may be in transfer
        _collect(self._parameters, gradients, array)
        before = self.finish_push()
        with gpu.using(self._device):
            self._transfers.start_push(array, samples, stream=gpu.stream_of(self._device))
        self._is_pushing = True
        return before if self._overlap else self.finish_push()

    def _push_rows(self, gradient: SparseGradient, samples: Sequence[Samples]) -> PushResult:
        with gpu.using(self._device):
            self._transfers.start_push(
                Gradient.sparse(gradient.tables, gradient.parts), samples,
                stream=gpu.stream_of(self._device))
        self._is_pushing = True
        result = self.finish_push()
        assert result is not None
        return result

    def finish_push(self) -> PushResult | None:
        if not self._is_pushing:
            return None
        try:
            result: PushResult = self._wait(self._transfers.finish_push)
        except Timeout:  # it continues
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
            self._transfers.start_pull(to, mode, stream=gpu.stream_of(self._device))
        self._is_pulling = True

    def _finish_pull(self) -> int:
        version: int = self._wait(self._transfers.finish_pull)
        self._is_pulling = False
        return version
