"""Creates optimizer state before the first step. Combines several optimizers into one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ... import InvalidArgument

# Sets the state of a parameter as it is before the first step. It was made by a step with a
# gradient of zeros.
ResetState = Callable[[torch.nn.Parameter, dict[str, Any]], None]

# The optimizers of which the state before the first step is known: zeros, but for these values. A
# text names the value of the parameter group. Some are missing in older versions of PyTorch.
_BEGIN: dict[str, dict[str, float | str]] = {
    "Adadelta": {},
    "Adafactor": {},
    "Adam": {},
    "AdamW": {},
    "Adamax": {},
    "ASGD": {"eta": "lr", "mu": 1.0},
    "Muon": {},
    "NAdam": {"mu_product": 1.0},
    "RAdam": {},
    "RMSprop": {},
    "Rprop": {"step_size": "lr"},
    "SGD": {},
}


def refuse(what: str, why: str) -> None:
    raise InvalidArgument(f"make '{what}' elastic: {why}")


class Optimizers:
    """Several optimizers as one object, with the attributes of Optimizer that ffdl uses."""

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._all = list(optimizers)

    @property
    def all(self) -> list[torch.optim.Optimizer]:
        return self._all

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for one in self._all for group in one.param_groups]

    @property
    def state(self) -> Mapping[Any, Any]:
        return {parameter: state for one in self._all for parameter, state in one.state.items()}

    def step(self) -> None:
        for one in self._all:
            one.step()


class Schedulers:
    """Several schedulers as one object, or a single scheduler that requires a metric."""

    def __init__(self, schedulers: Sequence[Any]) -> None:
        self._all = schedulers

    def step(self) -> None:
        for one in self._all:
            if not _takes_metric(one):
                one.step()

    def step_with(self, metric: float) -> None:
        """Steps the schedulers that require a metric."""
        for one in self._all:
            if _takes_metric(one):
                one.step(metric)

    def state_dict(self) -> dict[str, Any]:
        return {str(place): one.state_dict() for place, one in enumerate(self._all)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for place, one in enumerate(self._all):
            one.load_state_dict(state[str(place)])


def as_one_optimizer(doing: str, given: Any) -> Any:
    """Returns a single optimizer unchanged. Wraps a list or tuple in an Optimizers object."""
    if isinstance(given, torch.optim.Optimizer):
        return given
    if not isinstance(given, (list, tuple)) or not given or not all(
        isinstance(one, torch.optim.Optimizer) for one in given
    ):
        raise InvalidArgument(
            f"{doing}: the optimizer is a {type(given).__name__}; give an optimizer of "
            "torch.optim, or a list of optimizers"
        )
    return Optimizers(given)


def all_of(optimizer: Any) -> list[torch.optim.Optimizer]:
    """Returns the optimizers that were passed to as_one_optimizer()."""
    return optimizer.all if isinstance(optimizer, Optimizers) else [optimizer]


def _takes_metric(scheduler: Any) -> bool:
    return isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)


def as_one_scheduler(optimizer: Any, scheduler: Any, has_metric: bool = False) -> Any:
    """Returns one scheduler object or None. Checks that each scheduler is for this optimizer.

    has_metric: True if the trainer can step a scheduler that requires a metric.
    """
    if scheduler is None:
        return None
    several = isinstance(scheduler, (list, tuple))
    of = all_of(optimizer)
    for one in scheduler if several else [scheduler]:
        if not any(getattr(one, "optimizer", other) is other for other in of):
            refuse(type(one).__name__,
                    "it belongs to another optimizer; create it for the optimizer passed here")
        if _takes_metric(one) and not has_metric:
            refuse(type(one).__name__,
                    "it is stepped with a metric, which newcomers do not have; use a scheduler "
                    "that depends only on steps or epochs")
    if several:
        return Schedulers(scheduler)
    return Schedulers([scheduler]) if _takes_metric(scheduler) else scheduler


def parameters_of(
    optimizer: Any, parameters: list[torch.nn.Parameter], names: dict[int, str]
) -> list[torch.nn.Parameter]:
    """Returns the optimizer's parameters that require gradients, in the optimizer's order.

    Raises InvalidArgument unless the optimizer has exactly `parameters`, each of them once.
    """
    given = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    missing = {id(p) for p in parameters} - {id(p) for p in given}
    others = {id(p) for p in given} - {id(p) for p in parameters}
    if missing:
        which = ", ".join(repr(names[one]) for one in sorted(missing, key=names.__getitem__)[:3])
        refuse(type(optimizer).__name__,
                f"it lacks {len(missing)} parameters of the model that require gradients, such as "
                f"{which}; add them, or call requires_grad_(False) for them")
    if others:
        refuse(type(optimizer).__name__,
                f"{len(others)} of its parameters do not belong to the model; add them to the "
                "model, or leave them out")
    if len({id(p) for p in given}) < len(given):
        refuse(type(optimizer).__name__, "it has a parameter twice; pass each parameter once")
    return given


def make_optimizer_state(
    optimizer: Any,
    parameters: list[torch.nn.Parameter],
    names: dict[int, str],
    reset: ResetState | None = None,
) -> dict[str, torch.Tensor]:
    """Creates the optimizer's state, if it is missing, and returns its tensors."""
    given = parameters_of(optimizer, parameters, names)
    for one in all_of(optimizer):
        own = [p for group in one.param_groups for p in group["params"] if p.requires_grad]
        if any(p not in one.state for p in own):
            _make_state(one, own, reset)
    tensors = {}
    state = optimizer.state
    for parameter in given:
        for key, value in sorted(state.get(parameter, {}).items()):
            if isinstance(value, torch.Tensor):
                tensors[f"optimizer.{names[id(parameter)]}.{key}"] = value
            elif value is not None:
                refuse(type(optimizer).__name__,
                        f"its state '{key}' is a {type(value).__name__}; use an optimizer whose "
                        "state has only tensors")
    return tensors


def _make_state(
    optimizer: torch.optim.Optimizer, own: list[torch.nn.Parameter], reset: ResetState | None
) -> None:
    """Creates the state by a step with zero gradients. Then undoes the effects of the step."""
    name = type(optimizer).__name__
    known = _BEGIN.get(name) if type(optimizer).__module__.startswith("torch.optim") else None
    if known is None and reset is None:
        refuse(name, "its first step creates its state; create the state before, pass "
                      "reset_optimizer_state= to elastic(), or use one of " + ", ".join(_BEGIN))
    if any(group.get("dampening", 0) and group["momentum"] for group in optimizer.param_groups):
        refuse(name, "dampening makes its first step different; use dampening=0")
    if any(optimizer.state.get(p) for p in own):
        refuse(name, "it has state for some parameters only; create state for all, or for none")
    weights = [p.detach().clone() for p in own]
    groups = [dict(group) for group in optimizer.param_groups]
    for parameter in own:
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for parameter, weight in zip(own, weights, strict=True):
        parameter.grad = None
        parameter.detach().copy_(weight)
    for group, before in zip(optimizer.param_groups, groups, strict=True):
        group.clear()
        group.update(before)
        for parameter in group["params"]:
            state = optimizer.state.get(parameter, {})
            if reset is not None:
                reset(parameter, state)
                continue
            for key, value in state.items():
                if isinstance(value, torch.Tensor):
                    begin = known.get(key, 0.0)
                    value.fill_(group[begin] if isinstance(begin, str) else begin)


class StateWatch:
    """Checks that steps change the optimizer's state in place, as the session requires.

    The check runs after the first step, and after the loop has set a hyperparameter other than the
    learning rate. For example, an optimizer may need more state if the loop sets a momentum.
    """

    def __init__(self, optimizer: Any, state: dict[str, torch.Tensor]) -> None:
        self._optimizer = optimizer
        self._known = {id(tensor) for tensor in state.values()}
        self._checked: int | None = None

    def expect_unmoved(self, change: int) -> None:
        """Checks the state if `change` differs from its value at the last check.

        change: a counter that grows when the loop sets a hyperparameter other than a learning rate.
        """
        if self._checked == change:
            return
        self._checked = change
        for state in self._optimizer.state.values():
            for key, value in state.items():
                if isinstance(value, torch.Tensor) and id(value) not in self._known:
                    refuse(type(self._optimizer).__name__,
                            f"its step creates another tensor for its state '{key}'; use an "
                            "optimizer that changes its state in place, and set options that need "
                            "more state, such as momentum, from the start")
