"""An ordinary training loop whose workers come, leave and die while it runs."""

from __future__ import annotations

import contextlib
import signal
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import default_collate

from .. import (
    Backend,
    BatchRule,
    CheckpointOptions,
    GradientNoise,
    InvalidArgument,
    LearningRateRule,
    NoiseScale,
    PartitionLedger,
    Session,
    StepParticipant,
    StepResult,
    World,
    WorldChanged,
)
from .._options import call_with
from ..data import ElasticLoader, parts
from . import device as gpu
from .common_state import Averaged, Buffers, Gradients, Settings, make_optimizer_state, names_of
from .loss_scale import LossScale
from .model_watch import ModelWatch
from .overlap import Overlap
from .step_plan import StepPlan


def elastic(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    samples: ElasticLoader | PartitionLedger,
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

    model: on the CPU, or on one GPU (below); every worker builds it alike, as the optimizer.
    optimizer: SGD without dampening, Adam, AdamW, RMSprop, or one that has its state from the
    start, as Adagrad. Its state is made here, before the first step, so that its shape is fixed.
    ``trainer.step()`` steps it; the loop does not.
    samples: a loader, or a ledger, whose batches() is given the data set.
    scheduler: of ``torch.optim.lr_scheduler``, stepped here too, after each step or, with
    ``scheduler_unit="epoch"``, each epoch; what it sets is part of the state. Nothing else may
    change the optimizer's hyperparameters. One that is stepped with a metric is refused.
    clip_norm: of the mean gradient over all workers, as ``torch.nn.utils.clip_grad_norm_``.
    seed: before each batch PyTorch's generators, of the CPU and of the model's GPU, are seeded from
    it, the step and the batch's first sample, so that dropout does not depend on what a worker did
    before. It is part of the state.
    overlap: whether gradients are averaged during backward. None: where there are other hosts, or a
    processor of this one is free for it, and on GPUs. From backward() to step() they may then not
    be read or changed, and of several backward() of a step all but the last are within
    ``trainer.no_sync()``. With False they are this worker's until step(), as where they are needed
    whole: for micro-batches, noise and a rule with ``micro_batch_max``.
    bucket_bytes: so many at a time, those of the last parameters first. The same for all workers.
    micro_batch_samples: batches() gives so many samples at a time, step() after the last of this
    worker's share ends the step, and the model has the same bits whatever the number of workers and
    its changes (virtual workers: docs/session.md). The loader or ledger is made with the same
    number, and with SampleOrder.GLOBAL.
    batch_rule: what becomes of the batch and of the learning rate when the number of workers
    changes, asked in each step (step_batch). With ``workers`` samples come with ON_DEMAND, and each
    worker takes its share; with ``micro_batch_max`` batches() gives at most so many samples at a
    time, whose gradients are added up. The learning rate is multiplied while a step is applied, and
    a scheduler of steps goes on by what the step is worth.
    noise_interval: measures the noise of gradients every so many steps (GradientNoise), which
    ``trainer.noise_scale`` tells; None: not, or every 10 for LearningRateRule.ADA_SCALE.
    grad_scaler: for float16. The loop calls ``grad_scaler.scale(loss).backward()`` and nothing else
    of it: trainer.step() divides the mean gradient, skips a step in which that is not finite (whose
    samples count all the same), and updates the scale, which is part of the state. All workers give
    one, or none does. None for bfloat16, which needs none. Not beside a noise_interval.
    participants: beside the ledger, its agreed_batch and noise, such as a StragglerWatch.
    checkpoints: of all of the state, under the model's names and ``optimizer.NAME.KEY``; also the
    ledger, the seed, and what the scheduler has come to. With ``resume`` those count, and not what
    the program gives now.
    options: those of Session.open(), such as ``verify_state``, and store and id where the program
    was not started by ``ffdl run``.

    A model on a GPU trains through NCCL, or with ``backend=ffdl.Backend.DEVICE_SHM`` through memory
    that the GPUs of one host share. Gradients and state stay there, and PyTorch's current stream may
    be any. docs/gpu.md says what that takes of a machine.
    Gradients lie in one array per bucket or dtype, of which each ``parameter.grad`` is a view.
    Buffers that ``state_dict()`` names (the running statistics of a batch norm) move by the mean of
    their changes at all workers, weighted by samples, as the gradients are; integers are rounded.
    Where a mini-batch runs must not matter otherwise: docs/session.md says what must hold. On the
    main thread SIGTERM asks this worker to leave from now on, which is how ``ffdl run`` ends it.
    Raises InvalidArgument (what cannot be trained so), Unimplemented (a model on a GPU, and no GPU,
    driver, NCCL or CUDA here), and what Session.open() does.
    """
    if batch_rule is not None and batch_rule.learning_rate == LearningRateRule.ADA_SCALE:
        noise_interval = noise_interval or 10
    return Elastic(
        model, optimizer, samples, scheduler, scheduler_unit, clip_norm, seed, overlap, bucket_bytes,
        micro_batch_samples, batch_rule, noise_interval, grad_scaler, participants, checkpoints,
        options
    )


class Elastic:
    """A worker's side of an elastic training; made by :func:`elastic`.

    session: the ffdl.Session. left: this worker was asked to leave, and has; end without the work
    that the end of the training brings.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        samples: ElasticLoader | PartitionLedger,
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
        participants: Sequence[StepParticipant],
        checkpoints: CheckpointOptions | None,
        options: dict[str, Any],
    ) -> None:
        doing = f"make '{type(model).__name__}' elastic"
        if not isinstance(samples, (ElasticLoader, PartitionLedger)):
            raise InvalidArgument(
                f"{doing}: the samples are a {type(samples).__name__}; give an "
                "ffdl.data.ElasticLoader, as in place of a DataLoader, or a PartitionLedger"
            )
        if scheduler_unit not in ("step", "epoch"):
            raise InvalidArgument(
                f"{doing}: scheduler_unit is '{scheduler_unit}'; give 'step' or 'epoch'"
            )
        self._loader = samples if isinstance(samples, ElasticLoader) else None
        self._ledger = samples if self._loader is None else self._loader.ledger
        self._optimizer = optimizer
        self._scheduler = scheduler
        self._each_epoch = scheduler_unit == "epoch"
        self._clip_norm = clip_norm
        self._is_applying = False
        self._is_due = False  # step(), for the batch that was given out
        self._part = 0  # samples of that batch
        self._rest = 0  # those of this step that come after it
        self.left = False
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
        self._loss_scale = LossScale(grad_scaler, optimizer, self._device)
        self._loss_scale.expect_no_noise(noise_interval is not None, participants)
        averaged = Averaged(
            [*parameters[::-1], *self._buffers.forms], bucket_bytes, self._device)
        self._gradients = Gradients(model, parameters, averaged.like(parameters))
        self._watch = ModelWatch(model, parameters)
        self._buffers.changes = averaged.like(self._buffers.forms)
        names = names_of(model)
        self._settings = Settings(optimizer, scheduler, seed, grad_scaler)
        state = {names[id(p)]: p.detach() for p in model.parameters()}
        state |= make_optimizer_state(optimizer, parameters, names)
        state |= dict(zip(self._buffers.names, self._buffers.settled, strict=True))
        state["elastic.settings"] = self._settings.bytes
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
        optimizer.register_step_pre_hook(self._refuse_step)
        agreed_batch = self._ledger.agreed_batch
        with gpu.using(self._device):
            self.session: Session = call_with(
                doing, Session.open,
                {
                    "state": list(state.values()),
                    "gradients": averaged.arrays,
                    "bucket_bytes": bucket_bytes,
                    "shared_memory": averaged.memory,
                    "apply": self._apply,
                    "on_world": self._on_world,
                    "participants": [*([agreed_batch] if agreed_batch else []), self._ledger,
                                     *([noise] if noise else []), *participants],
                    "checkpoints": checkpoints and _with_names(checkpoints, list(state)),
                },
                options)
        self._settle()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: self.session.ask_to_leave())

    def batches(
        self,
        dataset: Any = None,
        *,
        samples: int | None = None,
        collate: Callable[[Sequence[Any]], Any] = default_collate,
    ) -> Iterator[Any]:
        """What this worker trains on, a batch for each step that has samples for it.

        With a loader, its batches; it takes none of these arguments. With a ledger, dataset: gives
        a sample by its number; a batch is ``collate`` of them. None: a batch is the numbers,
        int64[n]. samples: at most so many of a step; all that are due by default, which is meant
        for SampleOrder.GLOBAL. After each batch call step(). With micro-batches, or a batch rule
        that divides a worker's share, a step has several batches. When all epochs are done this
        makes the last step stable and leaves the job.
        """
        if self._loader is not None:
            if dataset is not None or samples is not None or collate is not default_collate:
                raise InvalidArgument(
                    "iterate over batches: the loader has the data set and how it is read; give no "
                    "arguments here"
                )
        if samples is not None and self._plan.rule is not None:
            raise InvalidArgument(
                "iterate over batches: the batch rule says how many samples a step has; leave "
                "'samples' out"
            )
        while True:
            yield from self._steps(dataset, samples, collate)
            if self.left:
                return
            try:
                self.session.finish()
                return
            except WorldChanged:  # all went back to a checkpoint, and the ledger with them
                self._settle()

    def _steps(
        self, dataset: Any, samples: int | None, collate: Callable[[Sequence[Any]], Any]
    ) -> Iterator[Any]:
        """The batches until all epochs are done, or this worker has left."""
        while not self._ledger.is_done:
            step = self.session.step
            self._gradients.drop_aside()
            self._rest = 0
            has_part = False
            for ranges, batch in self._parts(dataset, samples, collate):
                has_part = True
                self._begin_part(ranges)
                if batch is None:  # its samples are corrupt and left out: they give nothing
                    self.step()
                    continue
                yield batch
                if self._is_due:
                    raise InvalidArgument(
                        f"take the next batch: step() was not called for the one of step "
                        f"{step + 1}; call it once after each backward()"
                    )
            if not has_part:
                self.step()
            if self.left:
                return

    @property
    def noise_scale(self) -> NoiseScale:
        """How much the gradients of single samples differ; needs ``noise_interval``."""
        return self._plan.noise_scale()

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """Within it backward() adds to the gradients of a step, and averages none of them yet.

        As that of DistributedDataParallel: around all but the last backward() of a step.
        """
        return self._overlap.no_sync()

    def step(self) -> StepResult | None:
        """Averages the gradients, applies them, and changes the world where it must.

        Instead of ``optimizer.step()``; there are no gradients afterwards. Whatever it returns, go
        on with the next batch: after a step that was not applied, it has the samples that are due.
        None: the step goes on, as more of its batches come.
        Raises what Session.end_step() does, and what optimizer and scheduler do.
        """
        self._settings.expect_unchanged()
        if self._is_due:
            self._add_part()
        self._is_due = False
        if self._rest > 0:
            return None
        gpu.wait_for_current_stream(self._device)
        result = self.session.end_step(self._ledger.taken)
        gpu.wait_for_default_stream(self._device)  # which may still measure the gradients
        self._settle()
        self.left = result == StepResult.LEFT
        return result

    def _begin_part(self, ranges: parts.Ranges) -> None:
        if self._rest == 0:  # the first one
            self._rest = self._ledger.taken
        self._part = parts.count(ranges)
        self._rest -= self._part
        self._is_due = True
        self._overlap.begin_step(self.session, self._part)

    def _add_part(self) -> None:
        """What this batch contributes to the step."""
        self._watch.expect_unchanged()
        self._overlap.end_step()
        self._gradients.collect()
        if self._plan.has_micro_batches:
            self._buffers.collect()
            gpu.wait_for_current_stream(self._device)
            self.session.add_micro_batch(self._part)
            gpu.wait_for_default_stream(self._device)  # which adds
            self._buffers.put_in_place()  # the next one shall not depend on this one
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

    def _on_world(self, world: World) -> None:
        self._plan.world = world
        self._overlap.change_world()
        self._settings.may_differ = True
        if self._on_world_too is not None:
            self._on_world_too(world)

    def _apply(self) -> None:
        gpu.wait_for_default_stream(self._device)
        # A newcomer's first step is this, inside open(): what it was given is not in place yet.
        self._settings.restore()
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
        if not self._each_epoch:
            self._settings.step_scheduler(self._plan.progress)
        self._settings.record()
        gpu.wait_for_current_stream(self._device)

    def _settle(self) -> None:
        """Whatever became of the step: the model is at the state that members hold in common."""
        self._settings.restore()
        self._buffers.put_in_place()
        self._gradients.drop()
        self._rest = 0

    def _parts(
        self, dataset: Any, samples: int | None, collate: Callable[[Sequence[Any]], Any]
    ) -> Iterator[tuple[parts.Ranges, Any]]:
        """The batches of the present step, each with the ranges of its samples."""
        planned = self._plan.samples(self._ledger)
        if self._loader is not None:
            for ranges, batch in self._loader.next_parts(self._plan.cut, planned):
                self._seed_generator(ranges)  # the loader does, too, where it loads in this process
                yield ranges, batch
            return
        taken = self._ledger.take(samples if planned is None else planned)
        step = tuple((one.partition, one.begin, one.end) for one in taken)
        for ranges in self._plan.cut(step):
            numbers = self._ledger.sample_indices(ranges)
            self._seed_generator(ranges)
            if dataset is None:
                yield ranges, torch.from_numpy(numbers)
            else:
                yield ranges, collate([dataset[int(number)] for number in numbers])

    def _seed_generator(self, ranges: parts.Ranges) -> None:
        partition, begin, _ = ranges[0]
        of_step = f"{self._settings.seed} {self.session.step} {partition} {begin}"
        gpu.seed(self._device, zlib.crc32(of_step.encode()))

    def _refuse_step(self, *_: Any) -> None:
        if not self._is_applying:
            raise InvalidArgument(
                "step the optimizer: an elastic trainer does that, with the gradients of all "
                "workers; call trainer.step() instead, and give a GradScaler to elastic()"
            )


def _with_names(options: CheckpointOptions, names: list[str]) -> CheckpointOptions:
    """The same, with these names for what it is not given names for."""
    if not isinstance(options, CheckpointOptions):
        raise TypeError(
            f"keep checkpoints: 'checkpoints' is {options!r}; give ffdl.CheckpointOptions(folder, ...)"
        )
    given = {key: getattr(options, key) for key in dir(options) if not key.startswith("_")}
    return CheckpointOptions(**given | {"names": options.names or names})
