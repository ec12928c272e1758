"""Whether a model is still the one that was made elastic."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from .. import InvalidArgument

_registrations = 0  # of parameters and modules with modules, in this process


def _count(*_: Any) -> None:
    global _registrations
    _registrations += 1


register_module_parameter_registration_hook(_count)
register_module_module_registration_hook(_count)


class ModelWatch:
    """Notices other parameters, parameters in other memory, and frozen ones that are to be trained.

    To look through a model in each step would take as long as a small step: it is done when
    something was registered with any module since the last time, or is frozen no more.
    """

    def __init__(self, model: torch.nn.Module, parameters: list[torch.nn.Parameter]) -> None:
        self._model = model
        self._parameters = parameters
        self._places = [p.data_ptr() for p in parameters]
        self._known = {id(p) for p in parameters}
        self._frozen = [p for p in model.parameters() if not p.requires_grad]
        self._seen = _registrations

    def expect_unchanged(self) -> None:
        if [p.data_ptr() for p in self._parameters] != self._places:
            raise InvalidArgument(
                "end a step: the model's parameters lie in other memory than when it was made "
                "elastic; move or convert it before"
            )
        if self._seen == _registrations and not any(p.requires_grad for p in self._frozen):
            return
        new = [name for name, one in self._model.named_parameters()
               if one.requires_grad and id(one) not in self._known]
        if new:
            raise InvalidArgument(
                "end a step: the model has got other parameters to train since it was made elastic, "
                f"such as '{new[0]}', which nobody would train; give elastic() the model as it is "
                "to be"
            )
        self._seen = _registrations
