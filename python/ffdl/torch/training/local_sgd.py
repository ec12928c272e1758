"""Trains over slow networks: each worker makes many local steps between two averages."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ... import (
    Backend,
    CheckpointOptions,
    InvalidArgument,
    NonFinite,
    SampleLedger,
    SampleOrder,
    Session,
    StepParticipant,
    StepResult,
)
from ..._options import call_with
from ...data import ElasticLoader, parts
from .. import device as gpu
from .buffers import Buffers
from .common_state import (
    Averaged,
    Settings,
    expect_trainable,
    names_of,
    with_names,
)
from .inner_state import InnerState
from .layout import keep_layout
from .model_watch import ModelWatch
from .optimizers import as_one_scheduler, make_optimizer_state, parameters_of
from .training_loop import TrainingLoop, alone_if_not_launched, generators_of


def local_sgd(
    model: torch.nn.Module,
    inner: torch.optim.Optimizer,
    outer: torch.optim.Optimizer,
    samples: ElasticLoader | SampleLedger,
    *,
    every: int,
    scheduler: Any = None,
    clip_norm: float | None = None,
    seed: int = 0,
    buffers: Mapping[str, str] | None = None,
    participants: Sequence[StepParticipant] = (),
    checkpoints: CheckpointOptions | None = None,
    **options: Any,
) -> LocalSgd:
    """Makes a training loop elastic over slow networks. Returns when this worker has joined.

    ::

        loader = ffdl.data.ElasticLoader(
            dataset, batch_samples=64, epochs=3, order=ffdl.SampleOrder.ON_DEMAND,
            partition_samples=64 * 100)
        inner = torch.optim.AdamW(model.parameters(), lr=4e-4)
        outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
        trainer = ffdl.torch.local_sgd(model, inner, outer, loader, every=100)
        for images, labels in trainer.batches():
            loss(model(images), labels).backward()
            trainer.step()

    The method is DiLoCo (arXiv 2311.08105). In a round, each worker makes up to `every` steps of
    the inner optimizer with its own samples. At the end of a round, the outer optimizer updates the
    outer weights. The outer gradient is the outer weights minus the mean of the workers' weights,
    weighted by samples. In each round, the workers exchange about as many bytes as the model has. A
    round is one step of the session. The round's outer gradient and all samples of its inner steps
    are committed together, exactly once. Workers may join, leave and be killed as with elastic().

    model: as with elastic(). Within a round, the model's parameters differ between workers. When
    step() returns a result other than None, the parameters are the outer weights, which are equal
    on all workers. So evaluate the model only after a step() that returned a result other than
    None.
    inner: the inner optimizer: any optimizer whose step() needs no closure. The inner optimizer's
    state belongs to this worker, and is lost if the worker dies. A newcomer begins with a fresh
    inner state. If the job goes back to a checkpoint, each worker begins with a fresh inner state,
    because checkpoints do not contain it. If a round is not applied, the inner state from before
    the round is restored.
    outer: the outer optimizer: an optimizer of the same parameters as `inner`. The outer optimizer
    must be of a kind that elastic() accepts without ``reset_optimizer_state``, such as SGD without
    dampening, Adam, AdamW or RMSprop. The paper of DiLoCo uses SGD with Nesterov momentum. The
    outer optimizer's state is equal on all workers.
    samples: an ElasticLoader or a SampleLedger, with SampleOrder.ON_DEMAND. In a round, a worker
    uses up to `every` batches. The loader's `batch_samples` is the size of a batch. With a
    SampleLedger, the argument `samples` of batches() is the size of a batch. A worker that has
    fewer samples makes fewer inner steps, or none. So set partition_samples to about the number of
    samples that a worker uses in a round.
    every: the maximum number of inner steps in a round, at least 1 and equal on all workers.
    scheduler: a scheduler of ``torch.optim.lr_scheduler`` for the inner optimizer. The trainer
    steps the scheduler after each inner step. An applied round advances the scheduler by `every`
    steps on all workers, even if a worker made fewer inner steps. So the inner learning rates stay
    equal on all workers.
    clip_norm: the maximum norm of the gradient of each inner step, as for
    ``torch.nn.utils.clip_grad_norm_``.
    seed, buffers, participants, checkpoints, options: the same as for elastic(). A checkpoint
    contains the outer weights under the model's names, and the outer optimizer's state as
    ``optimizer.NAME.KEY``. A checkpoint does not contain the inner optimizer's state. The options
    ``step_timeout_s`` and ``operation_timeout_s`` limit how long the other workers wait for a slow
    worker at the end of a round.

    A worker needs memory for the model, the outer weights, the outer gradient and the outer
    optimizer's state. Two copies of the inner optimizer's state also need memory. After a round,
    each buffer that ``state_dict()`` names is bitwise equal on all workers, as with elastic() after
    a step. A model on a GPU trains as with elastic(). Raises the errors of elastic().
    docs/guide/slow_links.md describes the method and its settings.
    """
    return LocalSgd(
        model, inner, outer, samples, every, scheduler, clip_norm, seed, buffers, participants,
        checkpoints, options
    )


class LocalSgd(TrainingLoop):
    """The trainer of one worker with local steps: the object that :func:`local_sgd` returns."""

    def __init__(
        self,
        model: torch.nn.Module,
        inner: torch.optim.Optimizer,
        outer: torch.optim.Optimizer,
        samples: ElasticLoader | SampleLedger,
        every: int,
        scheduler: Any,
        clip_norm: float | None,
        seed: int,
        buffers: Mapping[str, str] | None,
        participants: Sequence[StepParticipant],
        checkpoints: CheckpointOptions | None,
        options: dict[str, Any],
    ) -> None:
        doing = f"train '{type(model).__name__}' with local steps"
        super().__init__(doing, samples)
        _expect_arguments(doing, inner, outer, every, clip_norm)
        if self._ledger.order == SampleOrder.GLOBAL:
            raise InvalidArgument(
                f"{doing}: SampleOrder.GLOBAL divides a round again when a worker joins or dies; "
                "use SampleOrder.ON_DEMAND, set batch_samples for one inner step of one worker, "
                f"and set partition_samples to about {every} times that number"
            )
        parameters = [p for p in model.parameters() if p.requires_grad]
        expect_trainable(model, parameters)
        names = names_of(model)
        parameters_of(inner, parameters, names)
        self._inner, self._outer = inner, outer
        self._every = every
        self._round_samples = 0  # that a round takes, if this worker holds as many
        self._clip_norm = clip_norm
        self._parameters = parameters
        self._is_stepping = False  # one of the optimizers, by this object
        self._is_applied = False  # the present round
        self._buffers = Buffers(doing, model, buffers)
        self._generators = generators_of(model)
        self._device = self._buffers.device
        loss = torch.empty(1, device="meta")
        averaged = Averaged([*parameters, *self._buffers.forms, loss], 0, self._device)
        self._buffers.carried = averaged.like(self._buffers.forms)
        if options.get("non_finite") == NonFinite.ACCEPT:
            self._buffers.non_finite = "accept"
        self._outer_gradients = averaged.like(parameters)
        self._outer_weights = [p.detach().clone() for p in parameters]
        (self._averaged_loss,) = averaged.like([loss])
        self._loss_sum = torch.zeros(1, device=self._device)  # over samples
        self._mean_loss: torch.Tensor | None = None
        self._has_loss = False  # step() was given one
        self._settings = Settings(inner, as_one_scheduler(inner, scheduler), seed)
        self._outer_settings = Settings(outer, None, seed)
        self._watch = ModelWatch(model, parameters)
        self._inner_state = InnerState(inner)
        state = {names[id(p)]: p.detach() for p in model.parameters()}
        state |= {
            names[id(p)]: weights
            for p, weights in zip(parameters, self._outer_weights, strict=True)}
        state |= make_optimizer_state(outer, parameters, names)
        state |= dict(zip(self._buffers.names, self._buffers.state, strict=True))
        state["local_sgd.inner_settings"] = self._settings.bytes
        state["local_sgd.outer_settings"] = self._outer_settings.bytes
        named = names | {id(loss): "loss"} | {
            id(form): "buffers" for form in self._buffers.forms}
        self._on_world_too = options.pop("on_world", None)
        if gpu.is_gpu(self._device):
            options = {"backend": Backend.NCCL, "device": self._device.index} | options
        for optimizer in (inner, outer):
            optimizer.register_step_pre_hook(self._refuse_step)
        with gpu.using(self._device):
            self.session: Session = call_with(
                doing, Session.open,
                {
                    "state": list(state.values()),
                    "gradients": averaged.arrays,
                    "shared_memory": averaged.memory,
                    "apply": self._apply,
                    "on_world": self._on_world,
                    "name_gradient": lambda array, element: averaged.name_element(
                        array, element, named),
                    "participants": [self._ledger, *participants],
                    "checkpoints": checkpoints and with_names(checkpoints, list(state)),
                },
                alone_if_not_launched(options))
        keep_layout(checkpoints, model, outer, state, "local_sgd.outer_settings")
        self._settle()
        self._leave_on_sigterm()

    @property
    def mean_loss(self) -> float | None:
        """The mean loss over the samples of all workers in the last applied round.

        The mean is computed from the losses that the workers pass to step(), so all workers must
        pass losses. The value is None if this worker has applied no round, or has passed no loss.
        """
        if self._mean_loss is None or not self._has_loss:
            return None
        return float(self._mean_loss)

    def step(self, loss: torch.Tensor | None = None) -> StepResult | None:
        """Makes an inner step. After the last inner step of a round, also ends the round.

        loss: the mean loss over the samples of this batch, for ``mean_loss``.

        Replaces ``inner.step()``. After step(), each ``parameter.grad`` is None. Returns None if
        the round continues. If the round ends, returns the result of Session.end_step(). At the end
        of a round, the model has the outer weights, even if the round was not applied. Continue
        with the next batch after every result. Raises the errors of Session.end_step(), and those
        of the optimizers and the scheduler.
        """
        self._settings.expect_unchanged()
        self._outer_settings.expect_unchanged()
        if self._is_due:
            self._make_inner_step(loss)
        self._is_due = False
        if self._rest > 0:
            return None
        return self._end_round()

    def _expect_samples(self, samples: int | None) -> None:
        if self._loader is None and (samples is None or samples < 1):
            raise InvalidArgument(
                f"iterate over batches: 'samples' is {samples}; pass at least 1 sample per inner "
                "step, or pass an ElasticLoader to local_sgd()"
            )

    def _plan_step(self, samples: int | None) -> tuple[int | None, parts.Cut]:
        batch = samples if self._loader is None else self._loader.batch_samples
        assert batch is not None
        self._round_samples = self._every * batch
        return self._round_samples, parts.every(batch)

    def _make_inner_step(self, loss: torch.Tensor | None) -> None:
        self._watch.expect_unchanged()
        self._inner_state.keep()
        if self._clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self._parameters, self._clip_norm)
        self._step(self._inner)
        self._drop_gradients()
        self._settings.advance()
        if loss is not None:
            self._has_loss = True
            self._loss_sum += loss.detach() * self._part

    def _end_round(self) -> StepResult:
        """Ends the session's step.

        Retries the step without new inner steps while the samples of the inner steps are due.
        """
        taken = self._ledger.taken
        due = self._take_again()
        before = self.session.step
        self._is_applied = False
        while True:
            if taken > 0:
                self._compute_outer_gradient(taken)
            gpu.wait_for_current_stream(self._device)
            result = self.session.end_step(taken)
            gpu.wait_for_default_stream(self._device)
            if result != StepResult.RETRY_STEP or taken == 0 or self._take_again() != due:
                break
        if self.session.step < before:  # the job went back to a checkpoint
            self._inner_state.begin_anew()
        self._settle()
        self.left = result == StepResult.LEFT
        return result

    def _take_again(self) -> list[tuple[int, int, int]]:
        """Takes the samples of a round from the ledger, and returns their ranges."""
        taken = self._ledger.take(self._round_samples)
        return [(one.partition, one.begin, one.end) for one in taken]

    @torch.no_grad()
    def _compute_outer_gradient(self, samples: int) -> None:
        for weights, parameter, gradient in zip(
            self._outer_weights, self._parameters, self._outer_gradients, strict=True
        ):
            torch.sub(weights, parameter, out=gradient)
        self._buffers.collect()
        torch.div(self._loss_sum, samples, out=self._averaged_loss)

    def _apply(self) -> None:
        gpu.wait_for_default_stream(self._device)
        # A newcomer's first round, inside open(): the received values are not in place yet.
        self._settings.rewind()
        self._outer_settings.restore()
        self._put_weights_in_place()
        for parameter, gradient in zip(self._parameters, self._outer_gradients, strict=True):
            parameter.grad = gradient
        self._step(self._outer)
        self._drop_gradients()
        with torch.no_grad():
            for weights, parameter in zip(self._outer_weights, self._parameters, strict=True):
                weights.copy_(parameter)
        self._buffers.apply()
        with warnings.catch_warnings():  # a worker without samples has made no inner step yet
            warnings.filterwarnings("ignore", "Detected call of `lr_scheduler.step")
            self._settings.step_scheduler(self._every)
        self._settings.record()
        self._mean_loss = self._averaged_loss.clone()
        self._is_applied = True
        gpu.wait_for_current_stream(self._device)

    def _on_world(self, world: Any) -> None:
        self._note_world(world)
        self._buffers.change_world(world)
        self._settings.may_differ = self._outer_settings.may_differ = True
        if self._on_world_too is not None:
            self._on_world_too(world)

    def _settle(self) -> None:
        self._settings.rewind()
        self._outer_settings.restore()
        self._inner_state.end_round(self._is_applied)
        self._put_weights_in_place()
        self._buffers.put_in_place()
        self._drop_gradients()
        self._loss_sum.zero_()
        self._rest = 0

    def _step(self, optimizer: torch.optim.Optimizer) -> None:
        self._is_stepping = True
        try:
            with torch.enable_grad():
                optimizer.step()
        finally:
            self._is_stepping = False

    def _put_weights_in_place(self) -> None:
        with torch.no_grad():
            for parameter, weights in zip(self._parameters, self._outer_weights, strict=True):
                parameter.copy_(weights)

    def _drop_gradients(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    def _refuse_step(self, *_: Any) -> None:
        if not self._is_stepping:
            raise InvalidArgument(
                "step the optimizer: the trainer of local_sgd() steps both optimizers; call "
                "trainer.step() instead"
            )


def _expect_arguments(
    doing: str, inner: Any, outer: Any, every: Any, clip_norm: float | None
) -> None:
    for name, optimizer in (("inner", inner), ("outer", outer)):
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise InvalidArgument(
                f"{doing}: '{name}' is a {type(optimizer).__name__}; give an optimizer of "
                "torch.optim"
            )
    if inner is outer:
        raise InvalidArgument(
            f"{doing}: 'inner' and 'outer' are the same object; create two optimizers of the same "
            "parameters, such as AdamW and SGD(lr=0.7, momentum=0.9, nesterov=True)"
        )
    if not isinstance(every, int) or isinstance(every, bool) or every < 1:
        raise InvalidArgument(
            f"{doing}: 'every' is {every!r}; give at least 1 inner step per round"
        )
    if clip_norm is not None and not clip_norm > 0:
        raise InvalidArgument(
            f"{doing}: clip_norm is {clip_norm}; give a norm above 0, or None"
        )
