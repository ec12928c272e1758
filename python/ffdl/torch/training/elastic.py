"""An ordinary training loop with workers that join, leave and die while it runs."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import default_collate

from ... import (
    Backend,
    BatchRule,
    CheckpointOptions,
    GradientNoise,
    InvalidArgument,
    LearningRateRule,
    NoiseScale,
    NonFinite,
    SampleLedger,
    Session,
    StepParticipant,
    StepResult,
    World,
)
from ..._options import call_with
from ...data import ElasticLoader, parts
from .. import device as gpu
from .common_state import (
    SETTINGS,
    Averaged,
    Buffers,
    Gradients,
    Settings,
    name_state,
    names_of,
    with_names,
)
from .layout import keep_layout
from .loop_values import LoopValues
from .loss_scale import LossScale
from .model_watch import ModelWatch
from .optimizers import (
    ResetState,
    StateWatch,
    all_of,
    as_one_optimizer,
    as_one_scheduler,
    make_optimizer_state,
)
from .overlap import Overlap
from .step_plan import StepPlan
from .training_loop import TrainingLoop, alone_if_not_launched

_METRIC_MAX = 1e38  # it travels as a float32


def elastic(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    samples: ElasticLoader | SampleLedger,
    *,
    scheduler: Any = None,
    scheduler_unit: str = "step",
    clip_norm: float | None = None,
    seed: int = 0,
    overlap: bool | None = None,
    bucket_bytes: int = 25 << 20,
    micro_batch_samples: int | None = None,
    batch_rule: BatchRule | None = None,
    noise_interval: int | None = None,
    grad_scaler: torch.amp.GradScaler | None = None,
    reset_optimizer_state: ResetState | None = None,
    extra_state: Mapping[str, Any] | None = None,
    after_step: Callable[[], Any] | None = None,
    participants: Sequence[StepParticipant] = (),
    checkpoints: CheckpointOptions | None = None,
    **options: Any,
) -> Elastic:
    """Makes a training loop elastic; returns when this worker is part of the job.

    ::

        loader = ffdl.data.ElasticLoader(dataset, batch_samples=64, epochs=3)
        trainer = ffdl.torch.elastic(model, optimizer, loader)
        for images, labels in trainer.batches():
            loss(model(images), labels).backward()
            trainer.step()

    model: on the CPU, or on one GPU (below). Every worker builds the same model and optimizer.
    optimizer: of the model's parameters that require gradients, or a list of several that share
    them out. Further parameters, which are frozen, are left alone. ``trainer.step()`` steps it; the
    loop does not. Its state is created here, before the first step, so that its shape is fixed.
    This works for Adadelta, Adafactor, Adam, AdamW, Adamax, ASGD, Muon, NAdam, RAdam, RMSprop,
    Rprop and SGD without dampening. It also works for optimizers that have their state from the
    start, such as Adagrad.
    reset_optimizer_state: for another optimizer. Its state is made by a step with gradients of
    zeros. This function then sets the state of one parameter to that before the first step. It is
    called with each parameter and its state, a dict of tensors to be changed in place.
    samples: a loader, or a ledger. With a ledger batches() takes the data set.
    scheduler: of ``torch.optim.lr_scheduler``, or a list of several. It is stepped here, after each
    step or, with ``scheduler_unit="epoch"``, after each epoch. A ReduceLROnPlateau is stepped when
    a worker has called ``report()`` with a metric. Its values are part of the state. Without a
    scheduler the loop may set the learning rate and other numbers of the parameter groups in each
    step. It sets them before backward(), as a function of ``trainer.step_number``. They are part of
    the state, too. A worker that has no samples in a step gets them from the others. Numbers that
    differ between workers raise InvalidArgument in step().
    clip_norm: the largest norm of the mean gradient over all workers, as for
    ``torch.nn.utils.clip_grad_norm_``.
    seed: seeds PyTorch's generators, of the CPU and of the model's GPU, before each batch. The seed
    of a batch also depends on the step and on the batch's first sample. So dropout does not depend
    on the worker's earlier batches. It is part of the state.
    overlap: True: gradients are averaged during backward. None: they are if there are other hosts,
    or a processor of this one is free for it, and on GPUs. Gradients must then not be read or
    changed from backward() to step(). Of several backward() of a step all but the last are within
    ``trainer.no_sync()``. False: gradients are this worker's until step(). Features that need whole
    gradients work in that way: micro-batches, noise and a rule with ``micro_batch_max``.
    bucket_bytes: the bytes averaged at a time, those of the last parameters first. The same for all
    workers.
    micro_batch_samples: batches() returns that many samples at a time. The step() after the last of
    this worker's share ends the step. The model has the same bits for any number of workers and its
    changes (virtual workers: docs/guide/sessions.md). The loader or ledger is created with the same
    number, and with SampleOrder.GLOBAL.
    batch_rule: the batch size and the learning rate for a changed number of workers, evaluated in
    each step (step_batch). With its ``workers`` samples are assigned with ON_DEMAND, and each
    worker takes its share. With its ``micro_batch_max`` batches() returns at most that many samples
    at a time, and their gradients are added up. While the optimizer applies a step, the learning
    rate is multiplied by the rule's factor. A scheduler of steps advances by as many steps as
    the rule says that the step counts for.
    noise_interval: steps from one measurement of gradient noise (GradientNoise) to the next.
    ``trainer.noise_scale`` returns it. None: not measured, or every 10 for
    LearningRateRule.ADA_SCALE.
    grad_scaler: for float16. The loop only calls ``grad_scaler.scale(loss).backward()``. In step()
    the trainer divides the mean gradient by the scale, and updates the scale, which is part of the
    state. It skips a step whose mean gradient is not finite; the samples of that step still count.
    All workers pass a scaler, or none does. None for bfloat16, which needs none. Not with a
    noise_interval.
    extra_state: name -> an object with ``state_dict()``, such as an average of the weights
    (``torch.optim.swa_utils.AveragedModel``). Its tensors are part of the state: newcomers and
    checkpoints get them. They must change in place, and only in after_step.
    after_step: called at every worker when a step is applied, after the optimizer. A newcomer calls
    it within elastic(). Its effect must depend on the state alone, so that all workers do the same.
    participants: beside the ledger, its batch_size_controller and noise, such as a StragglerWatch.
    checkpoints: of the whole state, under the model's names and ``optimizer.NAME.KEY``. They also
    have the ledger, the seed, and the scheduler's state. With ``resume`` those replace the values
    that the program passes.
    options: those of Session.open(), such as ``verify_state``, and store and id if the program was
    not started by ``ffdl run``. Without them, and without another launcher, this worker trains
    alone. ``non_finite`` decides on a step whose mean gradient holds NaN or Inf. An enabled
    GradScaler decides that itself, and skips the step. A step whose changes of the buffers are not
    finite moves no buffer.

    A model on a GPU trains through NCCL, or with ``backend=ffdl.Backend.DEVICE_SHM`` through memory
    that the GPUs of one host share. Gradients and state stay there, and PyTorch's current stream
    may be any. docs/guide/gpu.md lists the requirements.
    Gradients are in one array per bucket or dtype, of which each ``parameter.grad`` is a view.
    Buffers that ``state_dict()`` names, such as the running statistics of a batch norm, change by
    the mean of their changes at all workers. The mean is weighted by samples, as for gradients;
    integers are rounded. Otherwise results must not depend on the worker of a mini-batch:
    docs/guide/sessions.md lists the conditions.
    On the main thread SIGTERM asks this worker to leave from now on; ``ffdl run`` ends a worker by
    it. A handler that the loop installs afterwards is called too.
    Raises InvalidArgument (a model or loop that cannot be trained so), and the errors of
    Session.open(). Raises Unimplemented for a model on a GPU, if there is no GPU, driver, NCCL or
    CUDA here.
    """
    if batch_rule is not None and batch_rule.learning_rate == LearningRateRule.ADA_SCALE:
        noise_interval = noise_interval or 10
    return Elastic(
        model, optimizer, samples, scheduler, scheduler_unit, clip_norm, seed, overlap,
        bucket_bytes, micro_batch_samples, batch_rule, noise_interval, grad_scaler,
        reset_optimizer_state, extra_state or {}, after_step, participants, checkpoints, options
    )


class Elastic(TrainingLoop):
    """A worker's side of an elastic training; created by :func:`elastic`."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        samples: ElasticLoader | SampleLedger,
        scheduler: Any,
        scheduler_unit: str,
        clip_norm: float | None,
        seed: int,
        overlap: bool | None,
        bucket_bytes: int,
        micro_batch_samples: int | None,
        batch_rule: BatchRule | None,
        noise_interval: int | None,
        grad_scaler: torch.amp.GradScaler | None,
        reset_optimizer_state: ResetState | None,
        extra_state: Mapping[str, Any],
        after_step: Callable[[], Any] | None,
        participants: Sequence[StepParticipant],
        checkpoints: CheckpointOptions | None,
        options: dict[str, Any],
    ) -> None:
        doing = f"make '{type(model).__name__}' elastic"
        super().__init__(doing, samples)
        if scheduler_unit not in ("step", "epoch"):
            raise InvalidArgument(
                f"{doing}: scheduler_unit is '{scheduler_unit}'; give 'step' or 'epoch'"
            )
        self._optimizer = as_one_optimizer(doing, optimizer)
        self._scheduler = as_one_scheduler(self._optimizer, scheduler, has_metric=True)
        self._each_epoch = scheduler_unit == "epoch"
        self._clip_norm = clip_norm
        self._after_step = after_step
        self._is_applying = False
        self._is_applied = False  # the present step
        self._is_open = False  # steps() has begun it, and step() has not ended it
        self._is_complete = False  # the loop has taken all of its batches
        self._votes = False  # the loop's body has run in it
        self._loss: torch.Tensor | float | None = None  # over the samples of this worker so far
        self._loss_share = 0.0  # of them
        parameters = [p for p in model.parameters() if p.requires_grad]
        self._parameters = parameters
        self._plan = StepPlan(batch_rule, micro_batch_samples, noise_interval is not None)
        self._plan.expect(self._ledger)
        bucket_bytes = self._plan.bucket_bytes(bucket_bytes, overlap, participants)
        self._buffers = Buffers(model)
        self._device = gpu.device_of(
            doing,
            [*model.named_parameters(),
             *zip(self._buffers.names, self._buffers.settled, strict=True)])
        self._loss_scale = LossScale(grad_scaler, self._optimizer, self._device)
        self._loss_scale.expect_no_noise(noise_interval is not None, participants)
        self._loop_values = LoopValues(self._optimizer, has_set=self._scheduler is None)
        averaged = Averaged(
            [*parameters[::-1], self._loop_values.form, *self._buffers.forms], bucket_bytes,
            self._device)
        self._gradients = Gradients(model, parameters, averaged.like(parameters))
        self._watch = ModelWatch(model, parameters)
        self._buffers.changes = averaged.like(self._buffers.forms)
        (self._loop_values.carried,) = averaged.like([self._loop_values.form])
        names = names_of(model)
        self._settings = Settings(self._optimizer, self._scheduler, seed, grad_scaler)
        optimizer_state = make_optimizer_state(
            self._optimizer, parameters, names, reset_optimizer_state)
        self._state_watch = StateWatch(self._optimizer, optimizer_state)
        state = name_state(
            doing, model, optimizer_state, self._buffers, self._settings, extra_state)
        if noise_interval is not None:
            with gpu.using(self._device):
                self._plan.noise = GradientNoise.create(
                    gradients=self._gradients.views, interval=noise_interval)
        noise = self._plan.noise
        self._overlap = Overlap(
            parameters, self._gradients, averaged, bucket_bytes, overlap, self._device)
        self._on_world_too = options.pop("on_world", None)
        if micro_batch_samples is not None:
            options |= {"micro_batch_shares": self._ledger,
                        "micro_batch_samples": micro_batch_samples}
        if gpu.is_gpu(self._device):
            options = {"backend": Backend.NCCL, "device": self._device.index} | options
        if self._loss_scale.decides:  # it skips a step with values that are not finite itself
            self._buffers.keeps_finite = options.get("non_finite") != NonFinite.ACCEPT
            options = options | {"non_finite": NonFinite.ACCEPT}
        named = names | {
            id(form): name
            for form, name in zip(self._buffers.forms, self._buffers.names, strict=True)}
        named[id(self._loop_values.form)] = "hyperparameters"
        for one in all_of(self._optimizer):
            one.register_step_pre_hook(self._refuse_step)
        batch_size_controller = self._ledger.batch_size_controller
        with gpu.using(self._device):
            try:
                self.session: Session = call_with(
                    doing, Session.open,
                    {
                        "state": list(state.values()),
                        "gradients": averaged.arrays,
                        "bucket_bytes": bucket_bytes,
                        "shared_memory": averaged.memory,
                        "apply": self._apply,
                        "on_world": self._on_world,
                        "name_gradient": lambda array, element: averaged.name_element(
                            array, element, named),
                        "participants": [
                            *([batch_size_controller] if batch_size_controller else []),
                            self._ledger, *([noise] if noise else []), *participants],
                        "checkpoints": checkpoints and with_names(checkpoints, list(state)),
                    },
                    alone_if_not_launched(options))
            except InvalidArgument as error:
                if "non_finite is another" not in str(error):
                    raise
                raise InvalidArgument(
                    f"{error}, and give elastic() the same grad_scaler= and non_finite="
                ) from error
        keep_layout(checkpoints, model, self._optimizer, state, SETTINGS)
        self._settle()
        self._leave_on_sigterm()

    @property
    def noise_scale(self) -> NoiseScale:
        """The difference among the gradients of single samples; needs ``noise_interval``."""
        return self._plan.noise_scale()

    @property
    def mean_loss(self) -> float | None:
        """The mean loss over all samples of the last step that was applied, of all workers.

        Workers that passed no loss to step() do not count. None if no worker passed one, and before
        the first step of this worker.
        """
        return self._loop_values.mean_loss

    def on_main(self, every: int = 1) -> bool:
        """True at one worker, right after a step that was applied and is a multiple of `every`.

        Use it for work that is done once for all workers, such as an evaluation. The others wait in
        their next step.
        """
        return self.is_main and self._is_applied and self.step_number % every == 0

    def report(self, metric: float) -> None:
        """Sends the result of an evaluation to all workers, with the next step that is applied.

        A ReduceLROnPlateau is then stepped with it. Call it at one worker, as after on_main(). If
        several workers report in one step, the mean of their metrics counts, weighted by their
        samples.
        """
        if not abs(metric) < _METRIC_MAX:
            raise InvalidArgument(
                f"report a metric: it is {metric}; report finite numbers below {_METRIC_MAX}")
        self._loop_values.metric = float(metric)

    def stop(self) -> None:
        """Ends the training at all workers after the next step that this worker has samples in.

        Use it for early stopping. The end is part of the state: a job that resumes from its last
        checkpoint has no step left.
        """
        self._loop_values.asks_to_stop = True

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """Lets backward() add to the gradients of a step without averaging any of them yet.

        Use it as that of DistributedDataParallel: around all but the last backward() of a step.
        """
        return self._overlap.no_sync()

    def steps(
        self,
        dataset: Any = None,
        *,
        samples: int | None = None,
        steps: int | None = None,
        collate: Callable[[Sequence[Any]], Any] = default_collate,
    ) -> Iterator[Iterator[Any]]:
        """Iterates over the steps that have samples for this worker, and in each over its batches.

        ::

            for batches in trainer.steps():
                for x, y in batches:
                    loss(model(x), y).backward()
                trainer.step()

        Use it for loops that add up the gradients of several micro-batches and do something once
        per step. Arguments and end are those of batches(). Take all batches of a step before
        step(). The loop sets a learning rate before the first of them.
        """
        self._begin_loop(dataset, samples, steps, collate)
        yield from self._until_over(lambda: self._whole_steps(dataset, samples, collate))

    def step(self, loss: torch.Tensor | float | None = None) -> StepResult | None:
        """Averages the gradients, applies them, and changes the world if necessary.

        loss: the mean over the samples of this batch, for ``mean_loss``. Not with the micro-batches
        of steps().

        Replaces ``optimizer.step()``; there are no gradients afterwards. Returns None if the step
        continues with more batches. Continue with the next batch whatever the result. After a step
        that was not applied, the next batch has the samples that are due. Raises the errors of
        Session.end_step(), and those of optimizer and scheduler.
        """
        self._settings.expect_unchanged(loop_may_set=True)
        is_last = self._is_due and self._rest == 0
        if self._is_open and not self._is_complete and not is_last:
            raise InvalidArgument(
                f"end step {self.session.step + 1}: the loop has not taken all of its batches; "
                "take all of them, and call step() once after the last"
            )
        if loss is not None:
            self._note_loss(loss)
        if self._is_due:
            self._add_part()
        self._is_due = False
        if self._rest > 0:
            return None
        self._is_open = False
        self._loop_values.expect_sent()
        gpu.wait_for_current_stream(self._device)
        self._is_applied = False
        taken = self._ledger.taken
        result = self.session.end_step(taken)
        gpu.wait_for_default_stream(self._device)  # it may still measure the gradients
        if self._is_applied and self._loop_values.metric == self._loop_values.sent_metric:
            self._loop_values.metric = None  # all workers have it
        self._settle()
        self.left = result == StepResult.LEFT
        return result

    def _expect_samples(self, samples: int | None) -> None:
        if samples is not None and self._plan.rule is not None:
            raise InvalidArgument(
                "iterate over batches: the batch rule sets the samples of a step; leave 'samples' "
                "out"
            )

    def _plan_step(self, samples: int | None) -> tuple[int | None, parts.Cut]:
        planned = self._plan.samples(self._ledger)
        return samples if planned is None else planned, self._plan.cut

    def _begin_step(self) -> None:
        self._gradients.drop_aside()
        self._loop_values.begin_step()
        self._is_applied = False
        self._votes = False
        self._loss = None
        self._loss_share = 0.0

    def _begin_part(self, ranges: parts.Ranges) -> None:
        super()._begin_part(ranges)
        self._overlap.begin_step(self.session, self._part)

    def _note_loss(self, loss: torch.Tensor | float) -> None:
        if self._plan.has_micro_batches:
            if not self._is_due:
                raise InvalidArgument(
                    "end a step: 'loss' is given after its micro-batches were added up; use "
                    "batches(), and give it to step() after each"
                )
            self._loss = loss
            return
        taken = self._ledger.taken
        share = (self._part if self._is_due else taken) / max(taken, 1)
        given = (loss.detach() if isinstance(loss, torch.Tensor) else loss) * share
        self._loss = given if self._loss is None else self._loss + given
        self._loss_share += share
        if not self._is_due:  # its batches are added up, and not sent yet
            self._loop_values.send(self._votes, self._loss, self._loss_share)

    def _whole_steps(
        self, dataset: Any, samples: int | None, collate: Callable[[Sequence[Any]], Any]
    ) -> Iterator[Iterator[Any]]:
        while not self._is_over():
            step = self.session.step
            self._keep_sigterm()
            self._begin_step()
            self._rest = 0
            parts_of_step = self._parts(dataset, samples, collate)
            first = next(parts_of_step, None)
            if first is None:
                self.step()
            else:
                self._is_open = True
                self._is_complete = False
                yield self._batches_of(itertools.chain([first], parts_of_step))
                if self._is_open:
                    raise InvalidArgument(
                        f"take the next step: step() was not called for step {step + 1}; call it "
                        "once after its last batch"
                    )
            if self.left:
                return

    def _batches_of(self, parts_of_step: Iterator[tuple[parts.Ranges, Any]]) -> Iterator[Any]:
        for ranges, batch in parts_of_step:
            self._begin_part(ranges)
            self._is_empty = batch is None
            if batch is not None:  # else its samples are corrupt and left out
                yield batch
            if self._is_due:
                self._is_due = False
                self._add_part()
        self._is_complete = True

    def _add_part(self) -> None:
        """Adds this batch's contribution to the step."""
        self._votes |= not self._is_empty
        self._watch.expect_unchanged()
        self._overlap.end_step()
        self._gradients.collect()
        if self._plan.has_micro_batches:
            self._buffers.collect()
            self._loop_values.send(not self._is_empty, self._loss)
            self._loss = None
            gpu.wait_for_current_stream(self._device)
            self.session.add_micro_batch(self._part)
            gpu.wait_for_default_stream(self._device)  # it adds
            self._buffers.put_in_place()  # the next batch must not depend on this one
            self._gradients.drop()
            return
        taken = self._ledger.taken
        if self._part < taken:
            self._gradients.set_aside(self._part / taken)
        if self._rest > 0:
            return
        if self._part < taken:
            self._gradients.bring_back()
        self._buffers.collect()
        self._loop_values.send(self._votes, self._loss, self._loss_share)

    def _on_world(self, world: World) -> None:
        self._note_world(world)
        self._plan.world = world
        self._overlap.change_world()
        self._settings.may_differ = True
        if self._on_world_too is not None:
            self._on_world_too(world)

    def _apply(self) -> None:
        gpu.wait_for_default_stream(self._device)
        # A newcomer's first step, inside open(): the received values are not in place yet.
        self._settings.restore()
        if self._loop_values.receive():
            self._settings.has_stopped = True
        if self._each_epoch:
            self._settings.step_epochs(self._ledger.epoch)
        self._gradients.attach()
        self._loss_scale.unscale()
        if self._clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self._parameters, self._clip_norm)
        self._is_applying = True
        try:
            with self._plan.learning_rate(self._optimizer):
                self._loss_scale.step()
        finally:
            self._is_applying = False
        self._buffers.apply()
        if self._after_step is not None:
            self._buffers.put_in_place()
            with torch.no_grad():
                self._after_step()
        if not self._each_epoch:
            self._settings.step_scheduler(self._plan.progress)
        self._settings.step_with(self._loop_values.received_metric)
        self._settings.record()
        self._state_watch.expect_unmoved(self._loop_values.changes)
        self._is_applied = True
        gpu.wait_for_current_stream(self._device)

    def _settle(self) -> None:
        """Sets the model to the common state of the members, whatever the result of the step."""
        self._settings.restore()
        if not self._is_applied:
            self._settings.undo_changes()  # the loop sets them again, when the step is repeated
        self._buffers.put_in_place()
        self._gradients.drop()
        self._rest = 0


    def _refuse_step(self, *_: Any) -> None:
        if not self._is_applying:
            raise InvalidArgument(
                "step the optimizer: an elastic trainer does that, with the gradients of all "
                "workers; call trainer.step() instead, and give a GradScaler to elastic()"
            )
