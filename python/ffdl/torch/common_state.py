"""What the workers of an elastic training hold in common, as arrays of fixed shapes."""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from .. import InvalidArgument, shared_array
from . import device as gpu

# Their state after a step with a zero gradient is zero, and it is as good as none.
_BEGIN_AT_ZERO = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop)

SETTINGS_BYTES = 1 << 14


def _refuse(what: str, why: str) -> None:
    raise InvalidArgument(f"make '{what}' elastic: {why}")


def names_of(model: torch.nn.Module) -> dict[int, str]:
    """Of the parameters, by identity; the same whether or not the model was compiled."""
    return {id(p): name.replace("_orig_mod.", "") for name, p in model.named_parameters()}


def make_optimizer_state(
    optimizer: torch.optim.Optimizer,
    parameters: list[torch.nn.Parameter],
    names: dict[int, str],
) -> dict[str, torch.Tensor]:
    """The tensors of the optimizer's state, which are made where they are not there yet."""
    name = type(optimizer).__name__
    given = [p for group in optimizer.param_groups for p in group["params"]]
    if {id(p) for p in given} != {id(p) for p in parameters}:
        _refuse(name, "its parameters are not those of the model that require gradients; give it "
                      "exactly these")
    if any(p not in optimizer.state for p in given):
        _make_zero_state(optimizer, given)
    tensors = {}
    for parameter in given:
        for key, value in sorted(optimizer.state.get(parameter, {}).items()):
            if isinstance(value, torch.Tensor):
                tensors[f"optimizer.{names[id(parameter)]}.{key}"] = value
            elif value is not None:
                _refuse(name, f"its state '{key}' is a {type(value).__name__}; use an optimizer "
                              "whose state is tensors")
    return tensors


def _make_zero_state(optimizer: torch.optim.Optimizer, given: list[torch.nn.Parameter]) -> None:
    name = type(optimizer).__name__
    if type(optimizer) not in _BEGIN_AT_ZERO:
        _refuse(name, "its state comes with its first step; make it before, or use one of "
                      + ", ".join(one.__name__ for one in _BEGIN_AT_ZERO))
    if any(group.get("dampening", 0) and group["momentum"] for group in optimizer.param_groups):
        _refuse(name, "dampening makes its first step another; use dampening=0")
    if optimizer.state:
        _refuse(name, "it has state for some parameters only; give it for all, or for none")
    weights = [p.detach().clone() for p in given]
    for parameter in given:
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for parameter, weight in zip(given, weights, strict=True):
        parameter.grad = None
        parameter.detach().copy_(weight)
        for value in optimizer.state.get(parameter, {}).values():
            if isinstance(value, torch.Tensor):
                value.zero_()


def _buckets(tensors: list[torch.Tensor], bucket_bytes: int) -> Iterator[list[torch.Tensor]]:
    """As a session cuts them: each of one dtype, and whole with so many bytes."""
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
    """What a session averages: for each of the tensors one like it, on the CPU in shared memory.

    arrays: one for each bucket of the session, which has several tensors of one dtype, in their
    order, or without bucket_bytes by dtype. memory: those of the CPU, as shared_array() made them.
    """

    def __init__(
        self, tensors: list[torch.Tensor], bucket_bytes: int, device: torch.device
    ) -> None:
        self.memory: list[np.ndarray[Any, Any]] = []
        self.arrays: list[torch.Tensor] = []
        self._device = device
        self._like: dict[int, torch.Tensor] = {}
        self._ends: list[int] = []  # of each array, in tensors
        if bucket_bytes == 0:
            tensors = sorted(tensors, key=lambda one: str(one.dtype))
        for bucket in _buckets(tensors, bucket_bytes):
            whole = self._allocate(sum(one.numel() for one in bucket), bucket[0].dtype)
            parts = whole.split([one.numel() for one in bucket])
            for one, part in zip(bucket, parts, strict=True):
                # By `data`, each has a version of its own, which counts what is done to it in place.
                self._like[id(one)] = part.view(one.shape).data
            self.arrays.append(whole)
            self._ends.append(len(self._like))

    def like(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        return [self._like[id(one)] for one in tensors]

    def whole_arrays(self, ready: int) -> int:
        """How many of `arrays` are as they will be when the first so many tensors are."""
        return bisect.bisect_right(self._ends, ready)

    def _allocate(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        if count == 0 or gpu.is_gpu(self._device):
            return gpu.zeros(count, dtype, self._device)
        self.memory.append(shared_array(count * dtype.itemsize, np.uint8))
        return torch.from_numpy(self.memory[-1]).view(dtype)


class Gradients:
    """Those of each parameter. Backward makes them where it likes, and collect() copies them.

    To let it add to what is averaged would have it read and write that, and somebody write zeros.
    views: of each parameter, where the session averages it.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        parameters: list[torch.nn.Parameter],
        views: list[torch.Tensor],
    ) -> None:
        name = type(model).__name__
        for parameter in model.parameters():
            if not parameter.is_contiguous():
                _refuse(name, "a parameter is not contiguous; make it so")
        if not parameters:
            _refuse(name, "no parameter requires gradients")
        self._parameters = parameters
        self.views = views
        self._aside: list[torch.Tensor] = []
        self._has_aside = False
        self.drop()

    def attach(self) -> None:
        for parameter, view in zip(self._parameters, self.views, strict=True):
            if parameter.grad is not view:
                parameter.grad = view

    def collect(self) -> None:
        """Brings the gradients that backward made into the views."""
        for parameter, view in zip(self._parameters, self.views, strict=True):
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
        """Parameters have none, as after zero_grad(); the views keep what they have."""
        for parameter in self._parameters:
            parameter.grad = None

    def set_aside(self, share: float) -> None:
        """Adds this share of what was collected to what was set aside, and drops it."""
        if not self._aside:
            self._aside = [torch.zeros_like(view) for view in self.views]
        for aside, view in zip(self._aside, self.views, strict=True):
            aside.add_(view, alpha=share)
        self._has_aside = True
        self.drop()

    def bring_back(self) -> None:
        """What was set aside becomes the gradients."""
        for aside, view in zip(self._aside, self.views, strict=True):
            view.copy_(aside)

    def drop_aside(self) -> None:
        if self._has_aside:
            for aside in self._aside:
                aside.zero_()
        self._has_aside = False


class Buffers:
    """The model's buffers, which move by the mean of what the workers did to them."""

    def __init__(self, model: torch.nn.Module) -> None:
        saved = model.state_dict(keep_vars=True)
        found = {
            name.replace("_orig_mod.", ""): saved[name]
            for name, buffer in model.named_buffers()
            if name in saved and buffer.dtype != torch.bool and not buffer.is_complex()
        }
        self.names = list(found)
        self._buffers = list(found.values())
        self.settled = [buffer.detach().clone() for buffer in self._buffers]
        self.forms = [  # of the changes
            torch.empty_like(
                b, dtype=b.dtype if b.is_floating_point() else torch.float64, device="meta")
            for b in self._buffers
        ]
        self.changes: list[torch.Tensor] = []  # where the session averages them

    def collect(self) -> None:
        for buffer, settled, change in zip(
            self._buffers, self.settled, self.changes, strict=True
        ):
            # Also where both are infinite.
            change.copy_(torch.where(buffer == settled, 0, buffer - settled))

    def apply(self) -> None:
        for settled, change in zip(self.settled, self.changes, strict=True):
            settled += change if settled.is_floating_point() else change.round().to(settled.dtype)

    def put_in_place(self) -> None:
        with torch.no_grad():
            for buffer, settled in zip(self._buffers, self.settled, strict=True):
                buffer.copy_(settled)


def _changed(present: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """What is another now, in the types that it has here."""
    return {
        key: _in_form_of(present.get(key), value) for key, value in given.items()
        if json.loads(json.dumps(present.get(key))) != value
    }


def _in_form_of(present: Any, given: Any) -> Any:
    """What JSON has made of such a thing: it knows neither tuples nor keys that are numbers."""
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


def _expect_scheduler_of(optimizer: torch.optim.Optimizer, scheduler: Any) -> None:
    if getattr(scheduler, "optimizer", optimizer) is not optimizer:
        _refuse(type(scheduler).__name__,
                "it changes another optimizer; make it of the one that is given here")
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        _refuse(type(scheduler).__name__,
                "it is stepped with a metric, which workers that join have not seen; use one that "
                "goes by steps or epochs")


def _expect_alike(argument: str, mine: Any, theirs: Any) -> None:
    if (mine is None) != (theirs is None):
        raise InvalidArgument(
            f"take over the state of a training: it has {'no' if theirs is None else 'a'} "
            f"{argument}, and this worker {'none' if mine is None else 'one'}; give elastic() the "
            f"same {argument}= at all workers, and after a checkpoint"
        )


class Settings:
    """What steers the training, as bytes: hyperparameters, the states of scheduler and GradScaler,
    the seed.

    may_differ: the bytes may have come from others since they were last looked at.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        scheduler: Any,
        seed: int,
        grad_scaler: torch.amp.GradScaler | None = None,
    ) -> None:
        _expect_scheduler_of(optimizer, scheduler)
        self.bytes = torch.zeros(SETTINGS_BYTES, dtype=torch.int8, device="cpu")
        self.may_differ = False
        self._optimizer = optimizer
        self._scheduler = scheduler
        self._grad_scaler = grad_scaler
        self._epochs = 0
        self._progress = 0.0  # in steps of the scheduler
        self.seed = seed
        self._present = b""
        self._shown = ""  # what `_present` was made of
        self.record()

    def record(self) -> None:
        """The bytes become what the objects say."""
        if self._is_present():
            return
        text = self._text()
        if len(text) > SETTINGS_BYTES:
            _refuse(type(self._scheduler or self._optimizer).__name__,
                    f"its settings take {len(text)} bytes; at most {SETTINGS_BYTES}")
        self._shown = repr(self._values())
        if text == self._present:
            return
        self.bytes.zero_()
        self.bytes[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.int8)
        self._present = text

    def restore(self) -> None:
        """The objects become what the bytes say."""
        if not self.may_differ:
            return
        self.may_differ = False
        image = self.bytes.numpy().tobytes()
        if image == self._present.ljust(SETTINGS_BYTES, b"\0"):
            return
        settings = json.loads(image.rstrip(b"\0"))
        given_scale = settings.get("grad_scaler")  # which older checkpoints do not have
        _expect_alike("scheduler", self._scheduler, settings["scheduler"])
        _expect_alike("grad_scaler", self._scale_state(), given_scale)
        self._epochs = settings["epochs"]
        self._progress = settings["progress"]
        self.seed = settings["seed"]
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

    def step_scheduler(self, progress: float) -> None:
        """Goes on by so many steps: whole ones, and what is left is kept."""
        if self._scheduler is None:
            return
        before = int(self._progress)
        self._progress += progress
        for _ in range(int(self._progress) - before):
            self._scheduler.step()

    def step_epochs(self, epochs: int) -> None:
        """As many steps as there are epochs behind."""
        while self._scheduler is not None and self._epochs < epochs:
            self._scheduler.step()
            self._epochs += 1

    def expect_unchanged(self) -> None:
        if not self._is_present() and self._text() != self._present:
            raise InvalidArgument(
                "end a step: the optimizer's hyperparameters were changed in the loop, or a "
                "GradScaler's scale, which a newcomer would not see; give a scheduler to elastic(), "
                "and do not step it; of a GradScaler call scale() alone"
            )

    def _is_present(self) -> bool:
        """Whether the objects say what the bytes do; quicker than a text that is for others."""
        return repr(self._values()) == self._shown

    def _values(self) -> dict[str, Any]:
        groups = [
            {key: value for key, value in group.items() if key != "params"}
            for group in self._optimizer.param_groups
        ]
        scheduler = None if self._scheduler is None else self._scheduler.state_dict()
        return {"epochs": self._epochs, "grad_scaler": self._scale_state(), "groups": groups,
                "progress": self._progress, "scheduler": scheduler, "seed": self.seed}

    def _scale_state(self) -> dict[str, Any] | None:
        """None where there is no scaler, or one that is not enabled."""
        return None if self._grad_scaler is None else self._grad_scaler.state_dict() or None

    def _text(self) -> bytes:
        try:
            return json.dumps(self._values(), sort_keys=True).encode()
        except TypeError as error:
            _refuse(type(self._scheduler or self._optimizer).__name__,
                    f"its settings are not plain numbers and names ({error}); use others")
            raise
