"""A PyTorch training loop during which workers may join, leave and die."""

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
from .buffers import Buffers
from .common_state import SETTINGS, Averaged, Gradients, Settings, name_state, names_of, with_names
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
from .training_loop import TrainingLoop, alone_if_not_launched, generators_of

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
    buffers: Mapping[str, str] | None = None,
    extra_state: Mapping[str, Any] | None = None,
    after_step: Callable[[], Any] | None = None,
    participants: Sequence[StepParticipant] = (),
    checkpoints: CheckpointOptions | None = None,
    **options: Any,
) -> Elastic:
    """Lets workers join, leave and die during a training loop. Returns when this worker has joined.

    ::

        loader = ffdl.data.ElasticLoader(dataset, batch_samples=64, epochs=3)
        trainer = ffdl.torch.elastic(model, optimizer, loader)
        for images, labels in trainer.batches():
            loss(model(images), labels).backward()
            trainer.step()

    model: a model on the CPU or on one GPU. Every worker must build the same model and optimizer.
    optimizer: an optimizer, or a list of optimizers. Each parameter that requires gradients must
    belong to exactly one optimizer. Only ``trainer.step()`` may step the optimizer, because it
    averages the gradients first. The session needs optimizer state of fixed shapes, so elastic()
    creates the state before the first step. Supported are Adadelta, Adafactor, Adam, AdamW, Adamax,
    ASGD, Muon, NAdam, RAdam, RMSprop, Rprop and SGD without dampening. Also supported are
    optimizers whose state exists before the first step, such as Adagrad.
    reset_optimizer_state: a function that elastic() needs for any other optimizer. The trainer
    first makes a step with zero gradients, which creates the state. Then the trainer calls
    reset_optimizer_state with each parameter and the parameter's state, a dict of tensors. The call
    must set the tensors in place to their values before the first step.
    samples: an ElasticLoader or a SampleLedger. For a ledger, pass the data set to
    ``trainer.batches()``.
    scheduler: a scheduler of ``torch.optim.lr_scheduler``, or a list of schedulers. The trainer
    steps a scheduler after each step, or after each epoch if scheduler_unit is "epoch". A
    ReduceLROnPlateau is stepped only after a worker has called ``trainer.report()`` with a metric.
    The scheduler's values are part of the state. If there is no scheduler, the loop may set the
    learning rate and other numeric hyperparameters in each step. The loop must set hyperparameters
    before backward(), from ``trainer.step_number`` alone, so that all workers set equal values. A
    worker without samples receives hyperparameters from other workers. If hyperparameters differ
    between workers, step() raises InvalidArgument.
    clip_norm: the maximum norm of the mean gradient of all workers, as for
    ``torch.nn.utils.clip_grad_norm_``.
    seed: seeds PyTorch's generators, and each ``torch.Generator`` that is an attribute of a module
    of the model. Before each batch, PyTorch's generators are seeded from `seed`, the step and the
    batch's first sample. So dropout does not depend on the worker's earlier batches.
    overlap: whether gradients are averaged during backward (True) or in step() (False). By default,
    `overlap` is True for a model on a GPU, for workers on several hosts, or if processors outnumber
    compute threads. Unless `overlap` is False, the loop must not read or change gradients between
    backward() and step(). All backward() calls of a step except the last must also be within
    ``trainer.no_sync()``, unless `overlap` is False. With micro-batches or measurements of gradient
    noise, the default is False, and True raises InvalidArgument.
    bucket_bytes: the number of bytes of gradients that are averaged at a time. The gradients of the
    last parameters are averaged first, because backward computes them first. All workers must pass
    the same bucket_bytes.
    micro_batch_samples: the number of samples in a micro-batch. batches() returns one micro-batch
    at a time. The step() after this worker's last micro-batch ends the step. With micro-batches,
    the trained model is bitwise equal for any number of workers, because gradients are always added
    in the same order (docs/guide/sessions.md). The loader or ledger must have the same
    micro_batch_samples, and SampleOrder.GLOBAL.
    batch_rule: a BatchRule, which adapts the batch size and the learning rate to the number of
    workers (docs/guide/batch.md). If the rule sets ``workers``, each worker takes as many samples
    as the rule computes, which requires SampleOrder.ON_DEMAND. If the rule sets
    ``micro_batch_max``, batches() returns at most that many samples at a time, and the trainer adds
    up their gradients. During the optimizer's step, the learning rate is multiplied by the rule's
    factor. If scheduler_unit is "step", each step advances the scheduler by the ``progress`` that
    the rule computes.
    noise_interval: the number of steps between two measurements of gradient noise (GradientNoise).
    ``trainer.noise_scale`` returns the result. By default, noise_interval is 10 if the batch rule
    has LearningRateRule.ADA_SCALE, which uses the noise. With other batch rules, noise is not
    measured by default.
    grad_scaler: a GradScaler for float16. bfloat16 needs no scaler. The loop calls
    ``grad_scaler.scale(loss).backward()``, and no other method of the scaler. In step() the trainer
    divides the mean gradient by the scale, and updates the scale, which is part of the state. If
    the mean gradient is not finite, the optimizer is not stepped, but the step's samples are
    committed. Either all workers pass a scaler, or no worker does. The scale differs between steps,
    so noise cannot be measured with a scaler.
    buffers: maps names of the model's buffers, or patterns of ``fnmatch``, to a rule. The rule
    computes a buffer's next value if the buffer differs between workers after a step. The rule
    "mean" is the mean weighted by samples. The rule "sum" is the value before the step, plus the
    changes of all workers. The rule "max" is the maximum, and "first" the value of the lowest rank
    that has samples. Without a rule, floating-point numbers get the mean, and other buffers that
    differ raise InvalidArgument in step() (docs/guide/models-and-optimizers.md).
    extra_state: maps names to objects with ``state_dict()``, such as an average of the weights
    (``torch.optim.swa_utils.AveragedModel``). The tensors of the objects are part of the state:
    newcomers and checkpoints receive them. Only after_step may change the tensors of extra_state,
    and only in place.
    after_step: a function that every worker calls in each applied step, after the optimizer's step.
    On a newcomer, the first call of after_step happens before elastic() returns. It must depend
    only on the state, so that its effect is equal on all workers.
    participants: further participants of each step, such as a StragglerWatch. The trainer itself
    adds the ledger, its batch_size_controller and the noise measurement.
    checkpoints: options for checkpoints of the whole state. Checkpoints use the model's names for
    tensors. The optimizer's state KEY for the parameter NAME is the tensor ``optimizer.NAME.KEY``.
    A checkpoint also contains the ledger, the seed and the scheduler's state. If ``resume`` is set,
    the checkpoint's values replace the program's values.
    options: options of Session.open(), such as ``verify_state``. If the program was not started by
    ``ffdl run``, pass ``store`` and ``id``. Without a launcher and without ``store``, this worker
    trains alone. ``non_finite`` decides what happens if the mean gradient contains NaN or Inf. An
    enabled GradScaler skips steps whose mean gradient is not finite. With a GradScaler, a step that
    would make a buffer NaN or Inf changes no buffer.

    For a model on a GPU, gradients and state stay on the GPU, and workers exchange data through
    NCCL. With ``backend=ffdl.Backend.DEVICE_SHM``, workers use memory that the GPUs of one host
    share. PyTorch's current stream may be any stream. docs/guide/gpu.md lists the requirements.
    The session stores gradients in one array per bucket, or in one array per dtype if a step has
    micro-batches or noise is measured. During the optimizer's step, each ``parameter.grad`` is a
    view of an array of the session. If no worker's samples used a parameter in a step, its ``grad``
    is None, and the optimizer does not change it, as in PyTorch.
    A buffer in ``state_dict()``, such as a running mean of a batch norm, is bitwise equal on all
    workers after each step. With one worker, each buffer is bitwise equal to the buffer in plain
    PyTorch. Apart from buffers, the results of a mini-batch must not depend on the worker
    (docs/guide/sessions.md).
    On the main thread, elastic() installs a handler of SIGTERM, by which ``ffdl run`` asks a worker
    to leave. If the loop installs another handler later, both handlers are called.
    Raises InvalidArgument if elastic() does not support the model, the optimizer or an option, and
    the errors of Session.open(). Raises Unimplemented for a model on a GPU, if the GPU, its driver,
    NCCL or CUDA is missing.
    """
    if batch_rule is not None and batch_rule.learning_rate == LearningRateRule.ADA_SCALE:
        noise_interval = noise_interval or 10
    return Elastic(
        model, optimizer, samples, scheduler, scheduler_unit, clip_norm, seed, overlap,
        bucket_bytes, micro_batch_samples, batch_rule, noise_interval, grad_scaler,
        reset_optimizer_state, buffers, extra_state or {}, after_step, participants, checkpoints,
        options
    )


class Elastic(TrainingLoop):
    """The trainer of one worker: the object that :func:`elastic` returns."""

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
        buffers: Mapping[str, str] | None,
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
        self._micro_batches = 0  # of this worker, that were added to the step
        parameters = [p for p in model.parameters() if p.requires_grad]
        self._parameters = parameters
        self._plan = StepPlan(batch_rule, micro_batch_samples, noise_interval is not None)
        self._plan.expect(self._ledger)
        bucket_bytes = self._plan.bucket_bytes(bucket_bytes, overlap, participants)
        self._buffers = Buffers(doing, model, buffers)
        self._generators = generators_of(model)
        self._device = self._buffers.device
        self._loss_scale = LossScale(grad_scaler, self._optimizer, self._device)
        self._loss_scale.expect_no_noise(noise_interval is not None, participants)
        self._loop_values = LoopValues(
            self._optimizer, self._scheduler is None, len(parameters))
        averaged = Averaged(
            [*parameters[::-1], self._loop_values.form, *self._buffers.forms], bucket_bytes,
            self._device)
        self._gradients = Gradients(model, parameters, averaged.like(parameters))
        self._watch = ModelWatch(model, parameters)
        self._buffers.carried = averaged.like(self._buffers.forms)
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
        if options.get("non_finite") == NonFinite.ACCEPT:
            self._buffers.non_finite = "accept"
        elif self._loss_scale.decides:
            self._buffers.non_finite = "keep"
        if self._loss_scale.decides:  # it skips a step with values that are not finite itself
            options = options | {"non_finite": NonFinite.ACCEPT}
        named = names | {id(form): "buffers" for form in self._buffers.forms}
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
                    f"{error}, and pass the same grad_scaler= and non_finite= to elastic()"
                ) from error
        keep_layout(checkpoints, model, self._optimizer, state, SETTINGS)
        self._settle()
        self._leave_on_sigterm()

    @property
    def noise_scale(self) -> NoiseScale:
        """The NoiseScale of the gradients, if their noise is measured (``noise_interval``)."""
        return self._plan.noise_scale()

    @property
    def mean_loss(self) -> float | None:
        """The mean loss over the samples of all workers in the last applied step.

        The mean does not include workers that passed no loss to step(). The value is None if no
        worker passed a loss, or if this worker has applied no step yet.
        """
        return self._loop_values.mean_loss

    def on_main(self, every: int = 1) -> bool:
        """Returns True on one worker, after an applied step with a number divisible by `every`.

        Use on_main() for work that only one worker must do, such as an evaluation. While one worker
        evaluates, the other workers wait for it in their next step.
        """
        return self.is_main and self._is_applied and self.step_number % every == 0

    def report(self, metric: float) -> None:
        """Sends an evaluation metric to all workers, with the next step that is applied.

        If the scheduler is a ReduceLROnPlateau, all workers step it with the metric. Call report()
        on one worker, such as the worker where on_main() is True. If several workers report in one
        step, the metric is the mean of their metrics, weighted by their samples.
        """
        if not abs(metric) < _METRIC_MAX:
            raise InvalidArgument(
                f"report a metric: it is {metric}; report finite numbers below {_METRIC_MAX}")
        self._loop_values.metric = float(metric)

    def stop(self) -> None:
        """Ends the training on all workers after the next step in which this worker has samples.

        Use stop() for early stopping. The request to stop becomes part of the state. So a job that
        resumes from its last checkpoint makes no further step.
        """
        self._loop_values.asks_to_stop = True

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which backward() accumulates gradients without averaging them.

        If a step has several backward() calls, make all except the last within no_sync(), as with
        DistributedDataParallel.
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
        """Iterates over the steps in which this worker has samples.

        Each item is an iterator over a step's batches.

        ::

            for batches in trainer.steps():
                for x, y in batches:
                    loss(model(x), y).backward()
                trainer.step()

        Use steps() if the loop adds up the gradients of several micro-batches and has other work to
        do once per step. The arguments and the end of the iteration are those of batches(). The
        loop must take all batches of a step before it calls step(). A learning rate must be set
        before the first batch of the step.
        """
        self._begin_loop(dataset, samples, steps, collate)
        yield from self._until_over(lambda: self._whole_steps(dataset, samples, collate))

    def step(self, loss: torch.Tensor | float | None = None) -> StepResult | None:
        """Averages the gradients, applies them, and switches to the next world if necessary.

        loss: the mean loss over the samples of this batch, for ``mean_loss``. With steps() and
        micro-batches, pass no loss, because the batches are already added up.

        Replaces ``optimizer.step()``. After step(), each ``parameter.grad`` is None. Returns None
        if this worker has more batches in the step, otherwise the StepResult. After every result,
        continue with the next batch: if the step was not applied, the ledger assigns its samples
        again. Raises the errors of Session.end_step(), of the optimizer and of the scheduler.
        """
        self._settings.expect_unchanged(loop_may_set=True)
        is_last = self._is_due and self._rest == 0
        if self._is_open and not self._is_complete and not is_last:
            raise InvalidArgument(
                f"end step {self.session.step + 1}: the loop has not used all batches of the "
                "step; iterate over all batches, and call step() once after the last"
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
                "iterate over batches: the batch rule sets the number of samples of a step; leave "
                "'samples' out"
            )

    def _plan_step(self, samples: int | None) -> tuple[int | None, parts.Cut]:
        planned = self._plan.samples(self._ledger)
        return samples if planned is None else planned, self._plan.cut

    def _begin_step(self) -> None:
        self._gradients.begin_step()
        self._loop_values.begin_step()
        self._micro_batches = 0
        self._is_applied = False
        self._votes = False
        self._loss = None
        self._loss_share = 0.0

    def _begin_part(self, ranges: parts.Ranges) -> None:
        super()._begin_part(ranges)
        self._watch.begin_part()
        self._overlap.begin_step(self.session, self._part)

    def _note_loss(self, loss: torch.Tensor | float) -> None:
        if self._plan.has_micro_batches:
            if not self._is_due:
                raise InvalidArgument(
                    "end a step: step() got a 'loss' after steps() added up the micro-batches; "
                    "iterate over batches() instead, and call step(loss) after each batch"
                )
            self._loss = loss
            return
        taken = self._ledger.taken
        share = (self._part if self._is_due else taken) / max(taken, 1)
        given = (loss.detach() if isinstance(loss, torch.Tensor) else loss) * share
        self._loss = given if self._loss is None else self._loss + given
        self._loss_share += share
        if not self._is_due:  # its batches are added up, and not sent yet
            self._send_loop_values()

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
                        f"take the next step: step() was not called for step {step + 1}; call "
                        "step() once after the last batch of a step"
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
        """Adds this batch's gradients, buffer changes and loss to the step."""
        self._votes |= not self._is_empty
        self._watch.expect_unchanged()
        if self._plan.has_micro_batches or self.session.world.size > 1:
            self._watch.expect_same_weights()
        self._overlap.end_step()
        self._gradients.collect()
        if self._plan.has_micro_batches:
            before = sum(self._ledger.shares[: self.session.world.rank])
            self._buffers.collect(not self._is_empty, before + self._micro_batches)
            self._micro_batches += 1
            self._loop_values.send(not self._is_empty, self._gradients.used, self._loss)
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
        self._buffers.collect(self._votes)
        self._send_loop_values()

    def _send_loop_values(self) -> None:
        self._loop_values.send(self._votes, self._gradients.used, self._loss, self._loss_share)

    def _on_world(self, world: World) -> None:
        self._note_world(world)
        self._plan.world = world
        self._buffers.change_world(world)
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
        self._gradients.attach(self._loop_values.used)
        has_gradient = any(self._loop_values.used)
        if has_gradient:
            self._loss_scale.unscale()
        if self._clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self._parameters, self._clip_norm)
        self._is_applying = True
        try:
            with self._plan.learning_rate(self._optimizer):
                self._loss_scale.step(has_gradient)
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
        """Sets the model to the members' common state, whatever the result of the step was."""
        self._settings.restore()
        if not self._is_applied:
            self._settings.undo_changes()  # the loop sets them again, when the step is repeated
        self._buffers.put_in_place()
        self._gradients.drop()
        self._rest = 0

    def _refuse_step(self, *_: Any) -> None:
        if not self._is_applying:
            raise InvalidArgument(
                "step the optimizer: an elastic trainer steps it, with the gradients of all "
                "workers; call trainer.step() instead, and pass a GradScaler to elastic()"
            )
