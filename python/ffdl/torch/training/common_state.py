"""The state that the workers of an elastic training share, as arrays of fixed shapes."""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from ... import CheckpointOptions, InvalidArgument, shared_array
from .. import device as gpu
from .buffer_values import HELD, held_form
from .buffers import Buffers
from .optimizers import Schedulers, refuse

SETTINGS = "elastic.settings"  # the name of their tensor
_SETTINGS_UNIT = 1 << 14
_NUMBER_WIDTH = 24  # the longest repr() of a float, and more than that of a 64-bit integer


def names_of(model: torch.nn.Module) -> dict[int, str]:
    """Maps id(parameter) to the parameter's name, without the prefix of a compiled model."""
    return {id(p): name.replace("_orig_mod.", "") for name, p in model.named_parameters()}


def expect_trainable(model: torch.nn.Module, parameters: list[torch.nn.Parameter]) -> None:
    """Raises InvalidArgument if the model cannot be trained.

    parameters: the model's parameters that require gradients.
    """
    name = type(model).__name__
    for which, parameter in model.named_parameters():
        if not parameter.is_contiguous():
            refuse(name,
                   f"parameter '{which}' is not contiguous; set its data to data.contiguous(), and "
                   "convert only the inputs to channels_last")
        if parameter.dtype not in HELD:
            refuse(name,
                   f"parameter '{which}' is {parameter.dtype}, which a session cannot hold; use "
                   "float32, float64, bfloat16 or float16, or a buffer. For complex numbers, use "
                   "torch.view_as_real(), and torch.view_as_complex() in forward()")
    if not parameters:
        refuse(name, "no parameter requires gradients")


def extra_tensors(
    doing: str, objects: Mapping[str, Any], known: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Returns the tensors of each object's state_dict(), under names of the form OBJECT.KEY."""
    if not isinstance(objects, Mapping):
        raise InvalidArgument(
            f"{doing}: extra_state is a {type(objects).__name__}; give a dict of objects with "
            "state_dict(), such as {'average': averaged_model}"
        )
    tensors = {}
    for name, one in objects.items():
        if not hasattr(one, "state_dict"):
            raise InvalidArgument(
                f"{doing}: extra_state '{name}' is a {type(one).__name__}; give an object with "
                "state_dict(), such as a module that has the tensor as a buffer"
            )
        again = one.state_dict()
        for key, value in one.state_dict().items():
            full = f"{name}.{key}"
            if not isinstance(value, torch.Tensor):
                raise InvalidArgument(
                    f"{doing}: '{key}' of extra_state '{name}' is a {type(value).__name__}; "
                    "store the value in a tensor that changes in place"
                )
            if value.dtype not in HELD:
                raise InvalidArgument(
                    f"{doing}: '{key}' of extra_state '{name}' is {value.dtype}, which a session "
                    "cannot hold; let state_dict() return a view of it as "
                    f"{held_form(value).dtype}, or store the value in another dtype"
                )
            if value.data_ptr() != again[key].data_ptr():
                raise InvalidArgument(
                    f"{doing}: '{key}' of extra_state '{name}' is a copy that state_dict() made; "
                    "let state_dict() return the object's own tensors"
                )
            if full in known:
                raise InvalidArgument(
                    f"{doing}: the model and extra_state both have '{full}'; use another name"
                )
            tensors[full] = value.detach()
    return tensors


def name_state(
    doing: str,
    model: torch.nn.Module,
    optimizer_state: Mapping[str, torch.Tensor],
    buffers: Buffers,
    settings: Settings,
    extra_state: Mapping[str, Any],
) -> dict[str, torch.Tensor]:
    """Maps names to the tensors of an elastic training's state, in the order of the state."""
    names = names_of(model)
    state = {names[id(p)]: p.detach() for p in model.parameters()}
    state |= optimizer_state
    state |= dict(zip(buffers.names, buffers.state, strict=True))
    state[SETTINGS] = settings.bytes
    return state | extra_tensors(doing, extra_state, state)


def with_names(options: CheckpointOptions, names: list[str]) -> CheckpointOptions:
    """Returns a copy of the options. If options.names is empty, the copy has `names`."""
    if not isinstance(options, CheckpointOptions):
        raise TypeError(
            f"keep checkpoints: 'checkpoints' is of type {type(options).__name__}; give "
            "ffdl.CheckpointOptions(folder, ...)"
        )
    given = {key: getattr(options, key) for key in dir(options) if not key.startswith("_")}
    return CheckpointOptions(**given | {"names": options.names or names})


def _buckets(tensors: list[torch.Tensor], bucket_bytes: int) -> Iterator[list[torch.Tensor]]:
    """Groups tensors into buckets as a session does.

    All tensors of a bucket have one dtype. A bucket ends when its size reaches bucket_bytes. If
    bucket_bytes is 0, the size is not limited.
    """
    bucket: list[torch.Tensor] = []
    has = 0
    for tensor in tensors:
        if bucket and (has >= bucket_bytes > 0 or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket, has = [], 0
        bucket.append(tensor)
        has += tensor.numel() * tensor.element_size()
    if bucket:
        yield bucket


class Averaged:
    """The arrays that a session averages, in shared memory if they are on the CPU.

    For each of the constructor's `tensors`, the arrays contain one of the same shape and dtype.

    arrays: one array for each bucket of the session. All tensors of a bucket have one dtype, and
    are in the order of `tensors`. If bucket_bytes is 0, there is one array for each dtype.
    memory: the arrays on the CPU, as shared_array() returned them.
    """

    def __init__(
        self, tensors: list[torch.Tensor], bucket_bytes: int, device: torch.device
    ) -> None:
        self.memory: list[np.ndarray[Any, Any]] = []
        self.arrays: list[torch.Tensor] = []
        self._device = device
        self._like: dict[int, torch.Tensor] = {}
        self._ends: list[int] = []  # of each array, in tensors
        self._parts: list[list[torch.Tensor]] = []  # the tensors of each array
        if bucket_bytes == 0:
            tensors = sorted(tensors, key=lambda one: str(one.dtype))
        for bucket in _buckets(tensors, bucket_bytes):
            whole = self._allocate(sum(one.numel() for one in bucket), bucket[0].dtype)
            parts = whole.split([one.numel() for one in bucket])
            for one, part in zip(bucket, parts, strict=True):
                # Through `data` each tensor has its own version, which counts the changes in place.
                self._like[id(one)] = part.view(one.shape).data
            self.arrays.append(whole)
            self._ends.append(len(self._like))
            self._parts.append(bucket)

    def name_element(self, array: int, element: int, names: dict[int, str]) -> str:
        """Returns an element's name for error messages. names: maps id(tensor) to a name."""
        for tensor in self._parts[array]:
            if element < tensor.numel():
                return f"element {element} of the gradient of '{names[id(tensor)]}'"
            element -= tensor.numel()
        return f"element {element} of array {array}"

    def like(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        return [self._like[id(one)] for one in tensors]

    def whole_arrays(self, ready: int) -> int:
        """Returns how many arrays contain only tensors among the first `ready` tensors."""
        return bisect.bisect_right(self._ends, ready)

    def _allocate(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        if count == 0 or gpu.is_gpu(self._device):
            return gpu.zeros(count, dtype, self._device)
        self.memory.append(shared_array(count * dtype.itemsize, np.uint8))
        return torch.from_numpy(self.memory[-1]).view(dtype)


class Gradients:
    """The parameters' gradients. collect() copies the gradients of backward to `views`.

    Backward does not accumulate directly into the session's arrays, because accumulation requires
    zeroed arrays, and reads and writes them.

    views: for each parameter, the view of the session's arrays that receives its gradient.
    used: for each parameter, True if it had a gradient in this step. PyTorch's optimizers do not
    change a parameter without a gradient. A gradient of zeros could change the parameter.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        parameters: list[torch.nn.Parameter],
        views: list[torch.Tensor],
    ) -> None:
        expect_trainable(model, parameters)
        self._parameters = parameters
        self.views = views
        self._aside: list[torch.Tensor] = []
        self._has_aside = False
        self.used = [False] * len(parameters)
        self.drop()

    def begin_step(self) -> None:
        self.drop_aside()
        self.used = [False] * len(self.used)

    def attach(self, used: list[bool]) -> None:
        """Sets the gradient of each used parameter to its view, and others to None."""
        for parameter, view, is_used in zip(self._parameters, self.views, used, strict=True):
            if not is_used:
                parameter.grad = None
            elif parameter.grad is not view:
                parameter.grad = view

    def collect(self) -> None:
        """Copies each parameter's gradient to the view of this parameter."""
        for place, (parameter, view) in enumerate(zip(self._parameters, self.views, strict=True)):
            if parameter.grad is not None:
                self.used[place] = True
            self.collect_one(parameter, view)

    @staticmethod
    def collect_one(parameter: torch.nn.Parameter, view: torch.Tensor) -> None:
        gradient = parameter.grad
        if gradient is view:
            return
        if gradient is None:
            view.zero_()
        else:
            view.copy_(gradient.detach().to_dense())
        parameter.grad = view

    def drop(self) -> None:
        """Sets each parameter's grad to None, like zero_grad(). Keeps the values of the views."""
        for parameter in self._parameters:
            parameter.grad = None

    def set_aside(self, share: float) -> None:
        """Adds the collected gradients times `share` to a separate sum, and drops the gradients."""
        if not self._aside:
            self._aside = [torch.zeros_like(view) for view in self.views]
        for aside, view in zip(self._aside, self.views, strict=True):
            aside.add_(view, alpha=share)
        self._has_aside = True
        self.drop()

    def bring_back(self) -> None:
        """Copies the separate sum of set_aside() into the views."""
        for aside, view in zip(self._aside, self.views, strict=True):
            view.copy_(aside)

    def drop_aside(self) -> None:
        if self._has_aside:
            for aside in self._aside:
                aside.zero_()
        self._has_aside = False


def _changed(present: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Returns the values of `given` that differ from `present`, with the types of `present`."""
    return {
        key: _in_form_of(present.get(key), value) for key, value in given.items()
        if json.loads(json.dumps(present.get(key))) != value
    }


def _in_form_of(present: Any, given: Any) -> Any:
    """Restores tuples and numeric keys, which JSON converts to lists and strings."""
    if isinstance(present, dict) and isinstance(given, dict):
        keys = {next(iter(json.loads(json.dumps({key: 0})))): key for key in present}
        return type(present)({
            keys.get(key, key): _in_form_of(present.get(keys.get(key)), value)
            for key, value in given.items()
        })
    if isinstance(present, (list, tuple)) and isinstance(given, list):
        if len(present) == len(given):
            given = [_in_form_of(*both) for both in zip(present, given, strict=True)]
        return type(present)(given)
    return given


def _without_numbers(text: bytes) -> Any:
    """Returns the settings with every number of the parameter groups set to zero."""
    settings = json.loads(text)
    settings["groups"] = [
        {key: _zeros_for_numbers(value) for key, value in group.items()}
        for group in settings["groups"]
    ]
    return settings


def _zeros_for_numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_zeros_for_numbers(one) for one in value]
    return 0 if isinstance(value, (int, float)) else value


def _room_for(values: dict[str, Any]) -> int:
    """Returns the size in bytes of the tensor for the settings, a multiple of _SETTINGS_UNIT.

    The size depends on the names and on how many values there are, not on the numbers, so that all
    members and later checkpoints of one program have the same size.
    """
    return -(-_widest(values) // _SETTINGS_UNIT) * _SETTINGS_UNIT


def _widest(value: Any) -> int:
    """Returns the most bytes that a value of this form can have as JSON."""
    if isinstance(value, dict):
        return 2 + sum(len(json.dumps(str(key))) + _widest(one) + 4 for key, one in value.items())
    if isinstance(value, (list, tuple)):
        return 2 + sum(_widest(one) + 2 for one in value)
    return len(json.dumps(value)) if isinstance(value, str) else _NUMBER_WIDTH


def write_settings(text: bytes, into: torch.Tensor, refuse: Callable[[str], None]) -> None:
    """Writes settings to their tensor. Calls refuse(why) if the tensor is too small."""
    if len(text) > into.numel():
        refuse(
            f"its settings take {len(text)} bytes, and there is room for {into.numel()}, by the "
            "settings at the start; keep no value in a scheduler that grows with the steps"
        )
    into.zero_()
    into[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.int8)


def _expect_alike(argument: str, mine: Any, theirs: Any) -> None:
    if (mine is None) != (theirs is None):
        raise InvalidArgument(
            f"load the state of a training: it has {'no' if theirs is None else 'a'} "
            f"{argument}, and this worker has {'none' if mine is None else 'one'}; pass the same "
            f"{argument}= at all workers, also after a resume"
        )


class Settings:
    """The training's settings as bytes: hyperparameters, scheduler, GradScaler and seed.

    may_differ: True if another member may have replaced the bytes since the last restore().
    """

    def __init__(
        self,
        optimizer: Any,
        scheduler: Any,
        seed: int,
        grad_scaler: torch.amp.GradScaler | None = None,
    ) -> None:
        self.may_differ = False
        self._optimizer = optimizer
        self._scheduler = scheduler
        self._grad_scaler = grad_scaler
        self._epochs = 0
        self._progress = 0.0  # in steps of the scheduler
        self.seed = seed
        self.has_stopped = False  # a worker has asked for the end of the training
        self._present = b""
        self._shown = ""  # the source of `_present`
        self.bytes = torch.zeros(_room_for(self._values()), dtype=torch.int8, device="cpu")
        self.record()

    def record(self) -> None:
        """Writes the present settings to `bytes`."""
        if self._is_present():
            return
        text = self._text()
        if text != self._present:
            write_settings(text, self.bytes, self._refuse)
        self._shown = repr(self._values())
        self._present = text

    def restore(self) -> None:
        """Sets optimizer, scheduler, GradScaler and seed from `bytes`, if `may_differ` is True."""
        if not self.may_differ:
            return
        self.may_differ = False
        image = self.bytes.numpy().tobytes()
        if image == self._present.ljust(len(image), b"\0"):
            return
        settings = json.loads(image.rstrip(b"\0"))
        given_scale = settings.get("grad_scaler")  # missing in older checkpoints
        _expect_alike("scheduler", self._scheduler, settings["scheduler"])
        _expect_alike("grad_scaler", self._scale_state(), given_scale)
        self._epochs = settings["epochs"]
        self._progress = settings["progress"]
        self.seed = settings["seed"]
        self.has_stopped = settings.get("has_stopped", False)  # missing in older checkpoints
        for group, given in zip(self._optimizer.param_groups, settings["groups"], strict=True):
            plain = {key: value for key, value in group.items() if key != "params"}
            group.update(_changed(plain, given))
        if self._scheduler is not None:
            state = self._scheduler.state_dict()
            self._scheduler.load_state_dict(state | _changed(state, settings["scheduler"]))
        if self._grad_scaler is not None and given_scale is not None:
            self._grad_scaler.load_state_dict(given_scale)
        self._present = self._text()
        self._shown = repr(self._values())

    def advance(self) -> None:
        """Steps the scheduler once, without a change of `bytes`, so that rewind() can undo this."""
        if self._scheduler is not None:
            self._scheduler.step()
            self._shown = repr(self._values())

    def rewind(self) -> None:
        """Sets optimizer, scheduler, GradScaler and seed from `bytes`, which undoes advance()."""
        self._present = b""
        self.may_differ = True
        self.restore()

    def step_scheduler(self, progress: float) -> None:
        """Adds `progress` to the count of steps. Steps the scheduler once per completed step."""
        if self._scheduler is None:
            return
        before = int(self._progress)
        self._progress += progress
        for _ in range(int(self._progress) - before):
            self._scheduler.step()

    def step_with(self, metric: float | None) -> None:
        """Steps the schedulers that need a metric, if `metric` is not None."""
        if metric is not None and isinstance(self._scheduler, Schedulers):
            self._scheduler.step_with(metric)

    def step_epochs(self, epochs: int) -> None:
        """Steps the scheduler once for each newly completed epoch."""
        while self._scheduler is not None and self._epochs < epochs:
            self._scheduler.step()
            self._epochs += 1

    def expect_unchanged(self, loop_may_set: bool = False) -> None:
        """Raises InvalidArgument if the loop changed a hyperparameter or the GradScaler's scale.

        loop_may_set: True: the loop may change numeric hyperparameters if there is no scheduler.
        """
        if self._is_present():
            return
        text = self._text()
        if text == self._present:
            return
        groups = len(self._optimizer.param_groups)
        before = len(json.loads(self._present)["groups"])
        if groups != before:
            raise InvalidArgument(
                f"end a step: the optimizer has {groups} parameter groups, but had {before} when "
                "the trainer was created; add all groups before that, also of layers to be "
                "unfrozen later"
            )
        if loop_may_set and self._scheduler is None:
            if _without_numbers(text) == _without_numbers(self._present):
                return
        raise InvalidArgument(
            "end a step: the loop changed the optimizer's hyperparameters or a GradScaler's "
            "scale, which a newcomer would not receive; pass a scheduler to elastic() or "
            "local_sgd(), and do not step it; without a scheduler, set only numbers that depend "
            "on trainer.step_number alone; call only scale() of a GradScaler"
        )

    def undo_changes(self) -> None:
        """Calls rewind() if the loop changed a hyperparameter or another setting."""
        if not self._is_present():
            self.rewind()

    def _is_present(self) -> bool:
        """True if `bytes` has the present settings. The check avoids a conversion to JSON."""
        return repr(self._values()) == self._shown

    def _values(self) -> dict[str, Any]:
        groups = [
            {key: value for key, value in group.items() if key != "params"}
            for group in self._optimizer.param_groups
        ]
        scheduler = None if self._scheduler is None else self._scheduler.state_dict()
        return {"epochs": self._epochs, "grad_scaler": self._scale_state(), "groups": groups,
                "has_stopped": self.has_stopped, "progress": self._progress, "scheduler": scheduler,
                "seed": self.seed}

    def _scale_state(self) -> dict[str, Any] | None:
        """Returns the GradScaler's state, or None if no GradScaler is enabled."""
        return None if self._grad_scaler is None else self._grad_scaler.state_dict() or None

    def _text(self) -> bytes:
        try:
            return json.dumps(self._values(), sort_keys=True).encode()
        except TypeError as error:
            self._refuse(f"its settings have no JSON form ({error}); use numbers and text only")
            raise

    def _refuse(self, why: str) -> None:
        refuse(type(self._scheduler or self._optimizer).__name__, why)
