"""A copy of the inner optimizer's state from the beginning of a round."""

from __future__ import annotations

import copy
from typing import Any

import torch


class InnerState:
    """Copies an optimizer's state at the beginning of a round, and can restore it.

    The copy of the state is allocated in the first round. The copy of the state contains no
    hyperparameters.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._state = optimizer.state
        self._fresh = _copy(self._state, {})
        self._kept: dict[Any, dict[str, Any]] = {}
        self._is_kept = False

    def keep(self) -> None:
        """Copies the present state, unless this round already has a copy."""
        if not self._is_kept:
            self._kept = _copy(self._state, self._kept)
            self._is_kept = True

    def end_round(self, is_applied: bool) -> None:
        """Ends a round. If the round was not applied, restores the copied state."""
        if self._is_kept and not is_applied:
            self._set(self._kept)
        self._is_kept = False

    def begin_anew(self) -> None:
        """Restores the state that the optimizer had when this object was created."""
        self._is_kept = False
        self._set(self._fresh)

    def _set(self, state: dict[Any, dict[str, Any]]) -> None:
        present = _copy(state, self._state)
        self._state.clear()
        self._state.update(present)


@torch.no_grad()
def _copy(state: Any, into: Any) -> dict[Any, dict[str, Any]]:
    """Returns a copy of the state. Reuses the matching tensors of `into`."""
    return {
        parameter: {
            key: _copy_value(value, into.get(parameter, {}).get(key))
            for key, value in values.items()
        }
        for parameter, values in state.items()
    }


def _copy_value(value: Any, into: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return copy.deepcopy(value)
    is_alike = (
        isinstance(into, torch.Tensor) and into.shape == value.shape
        and into.dtype == value.dtype and into.device == value.device
    )
    return into.copy_(value) if is_alike else value.detach().clone()
