"""A GradScaler with the same scale on all workers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ... import GradientNoise, InvalidArgument, StepParticipant
from .. import device as gpu


class LossScale:
    """Steps the optimizer, through a GradScaler if there is one.

    The GradScaler sees only the mean gradient, whose bits are equal on all workers. So the
    GradScalers of all workers skip the same steps and compute the same scale.
    """

    def __init__(
        self,
        scaler: torch.amp.GradScaler | None,
        optimizer: torch.optim.Optimizer,
        device: torch.device,
    ) -> None:
        self._scaler = scaler
        self._optimizer = optimizer
        if scaler is not None:
            # The scale is created with the first loss, and a newcomer applies a step before it has
            # one.
            scaler.scale(gpu.zeros(1, torch.float32, device))

    @property
    def decides(self) -> bool:
        """True if an enabled GradScaler decides about steps whose gradients are not finite."""
        return self._scaler is not None and self._scaler.is_enabled()

    def expect_no_noise(self, measures: bool, participants: Sequence[StepParticipant]) -> None:
        if self._scaler is None or not self._scaler.is_enabled():
            return
        if measures or any(isinstance(one, GradientNoise) for one in participants):
            raise InvalidArgument(
                "measure the noise of gradients: the GradScaler's scale differs between steps; "
                "leave the GradScaler out, e.g. with bfloat16, or do not measure the noise"
            )

    def unscale(self) -> None:
        if self._scaler is None:
            return
        try:
            self._scaler.unscale_(self._optimizer)
        except (RuntimeError, ValueError) as error:
            seen = str(error).rstrip(".")
            raise InvalidArgument(
                f"unscale the mean gradient: {seen}; call only the GradScaler's scale() in the "
                "loop, clip with clip_norm=, and use float32 parameters"
            ) from error

    def step(self, has_gradient: bool) -> None:
        """Steps the optimizer, and then updates the GradScaler if there is one.

        If a gradient is not finite, the GradScaler skips the optimizer's step.
        has_gradient: False if no parameter has a gradient. Without gradients, the GradScaler is not
        called, because it refuses such a step.
        """
        if self._scaler is None or not has_gradient:
            self._optimizer.step()
            return
        self._scaler.step(self._optimizer)
        self._scaler.update()
