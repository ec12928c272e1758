"""Checks that a model has not changed since it was made elastic."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from ... import InvalidArgument

_registrations = 0  # number of registrations of parameters and modules in this process


def _count(*_: Any) -> None:
    global _registrations
    _registrations += 1


def registrations() -> int:
    """Returns how many parameters and modules were registered in this process so far."""
    return _registrations


register_module_parameter_registration_hook(_count)
register_module_module_registration_hook(_count)


class ModelWatch:
    """Detects parameters that are new, that were moved, or that were frozen and now need gradients.

    A search for new parameters takes as long as a small step. So the search runs only after a
    parameter or module was registered, or if a frozen parameter now requires gradients.
    """

    def __init__(self, model: torch.nn.Module, parameters: list[torch.nn.Parameter]) -> None:
        self._model = model
        self._parameters = parameters
        self._places = [p.data_ptr() for p in parameters]
        self._known = {id(p) for p in parameters}
        self._all = list(model.parameters())
        self._versions: list[int] = []
        self._frozen = [p for p in model.parameters() if not p.requires_grad]
        self._seen = _registrations

    def begin_part(self) -> None:
        """Notes the versions of the parameters at the beginning of a batch."""
        self._versions = [p._version for p in self._all]

    def expect_same_weights(self) -> None:
        """Raises InvalidArgument if a parameter was changed in place since begin_part()."""
        versions = [p._version for p in self._all]
        if versions == self._versions:
            return
        changed = next(
            p for p, now, before in zip(self._all, versions, self._versions, strict=True)
            if now != before)
        raise InvalidArgument(
            f"end a step: parameter {self._name_of(changed)} was changed in place by forward() or "
            "the loop, so it would differ between workers; change it in after_step= of elastic(), "
            "or before you create the trainer, such as in a first forward pass"
        )

    def expect_unchanged(self) -> None:
        places = [p.data_ptr() for p in self._parameters]
        if places != self._places:
            raise InvalidArgument(
                f"end a step: the model's parameter {self._first_moved(places)} was moved or "
                "converted after the trainer was created; call model.to(), model.double() and "
                "the like before you create the trainer"
            )
        if self._seen == _registrations and not any(p.requires_grad for p in self._frozen):
            return
        new = [name for name, one in self._model.named_parameters()
               if one.requires_grad and id(one) not in self._known]
        if new:
            raise InvalidArgument(
                "end a step: the model has new trainable parameters, such as "
                f"'{new[0]}'; add or unfreeze parameters before you create the trainer"
            )
        self._seen = _registrations

    def _first_moved(self, places: list[int]) -> str:
        moved = next(
            p for p, now, before in zip(self._parameters, places, self._places, strict=True)
            if now != before)
        return f"{self._name_of(moved)} ({moved.dtype}, on '{moved.device}')"

    def _name_of(self, parameter: torch.nn.Parameter) -> str:
        names = {id(p): name for name, p in self._model.named_parameters()}
        return f"'{names.get(id(parameter), '?')}'"
