"""An ordinary training loop whose workers come, leave and die while it runs."""

from __future__ import annotations

import contextlib
import functools
import signal
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import default_collate

from .. import InvalidArgument, PartitionLedger, Session, StepResult
from ..data import ElasticLoader
from .common_state import Buffers, Gradients, Settings, make_optimizer_state
from .overlap import Overlap


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
    **options: Any,
) -> Elastic:
    """Makes a training loop elastic; returns when this worker is part of the job.

    ::

        loader = ffdl.data.ElasticLoader(dataset, batch_samples=64, epochs=3)
        trainer = ffdl.torch.elastic(model, optimizer, loader)
        for images, labels in trainer.batches():
            loss(model(images), labels).backward()
            trainer.step()

    model: on the CPU; every worker builds it alike, as the optimizer. optimizer: SGD without
    dampening, Adam, AdamW, RMSprop, or one that has its state from the start, as Adagrad. Its
    state is made here, before the first step, so that its shape is fixed. ``trainer.step()`` steps
    it; the loop does not.
    samples: a loader, or a ledger, whose batches() is given the data set.
    scheduler: of ``torch.optim.lr_scheduler``, stepped here too, after each step or, with
    ``scheduler_unit="epoch"``, each epoch; what it sets is part of the state. Nothing else may
    change the optimizer's hyperparameters.
    clip_norm: of the mean gradient over all workers, as ``torch.nn.utils.clip_grad_norm_``.
    seed: before each batch PyTorch's generator is seeded from it, the step and the batch's first
    sample, so that dropout does not depend on what a worker did before.
    overlap: whether gradients are averaged during backward. None: where there are other hosts, or a
    processor of this one is free for it. From backward() to step() they may then not be read or
    changed, and of several backward() of a step all but the last are within ``trainer.no_sync()``.
    With False they are this worker's until step().
    bucket_bytes: so many at a time, those of the last parameters first. The same for all workers.
    options: those of Session.open(), such as ``verify_state``, and store and id where the program
    was not started by ``ffdl run``.

    Gradients lie in one array per dtype, of which each ``parameter.grad`` is a view. Buffers that
    ``state_dict()`` names (the running statistics of a batch norm) move by the mean of their changes
    at all workers, weighted by samples, as the gradients are; integers are rounded. Where a
    mini-batch runs must not matter otherwise: docs/session.md says what must hold. A ``GradScaler``
    is refused; ``torch.autocast`` with bfloat16 needs none. On the main thread SIGTERM asks this
    worker to leave from now on, which is how ``ffdl run`` ends it.
    Raises InvalidArgument (what cannot be trained so), and what Session.open() does.
    """
    return Elastic(
        model, optimizer, samples, scheduler, scheduler_unit, clip_norm, seed, overlap,
        bucket_bytes, options
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
        options: dict[str, Any],
    ) -> None:
        if scheduler_unit not in ("step", "epoch"):
            raise InvalidArgument(
                f"make '{type(model).__name__}' elastic: scheduler_unit is '{scheduler_unit}'; "
                "give 'step' or 'epoch'"
            )
        self._loader = samples if isinstance(samples, ElasticLoader) else None
        self._ledger = samples if self._loader is None else self._loader.ledger
        self._optimizer = optimizer
        self._scheduler = scheduler
        self._each_epoch = scheduler_unit == "epoch"
        self._clip_norm = clip_norm
        self._seed = seed
        self._is_applying = False
        self._is_due = False  # step(), for the batch that was given out
        self.left = False
        parameters = [p for p in model.parameters() if p.requires_grad]
        self._parameters = parameters
        self._gradients = Gradients(model, parameters)
        self._overlap = Overlap(parameters, self._gradients, bucket_bytes, overlap)
        self._buffers = Buffers(model)
        state = [p.detach() for p in model.parameters()]
        state += make_optimizer_state(optimizer, parameters)
        self._settings = Settings(optimizer, scheduler)
        optimizer.register_step_pre_hook(self._refuse_step)
        self.session = Session.open(
            options.pop("store", None),
            state=[*state, *self._buffers.settled, self._settings.bytes],
            gradients=[*self._overlap.gradients, *self._buffers.changes],
            bucket_bytes=bucket_bytes,
            apply=self._apply,
            participants=[self._ledger],
            **options,
        )
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
        for SampleOrder.GLOBAL. After each batch call step(). When all epochs are done this makes
        the last step stable and leaves the job.
        """
        if self._loader is not None:
            if dataset is not None or samples is not None or collate is not default_collate:
                raise InvalidArgument(
                    "iterate over batches: the loader has the data set and how it is read; give no "
                    "arguments here"
                )
            load = self._next
        else:
            load = functools.partial(self._load, dataset, samples, collate)
        while not self._ledger.is_done:
            step = self.session.step
            batch = load()
            if batch is None:
                self.step()
            else:
                self._is_due = True
                self._overlap.begin_step(self.session, self._ledger.taken)
                yield batch
                if self._is_due:
                    raise InvalidArgument(
                        f"take the next batch: step() was not called for the one of step "
                        f"{step + 1}; call it once after each backward()"
                    )
            if self.left:
                return
        self.session.finish()

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """Within it backward() adds to the gradients of a step, and averages none of them yet.

        As that of DistributedDataParallel: around all but the last backward() of a step.
        """
        return self._overlap.no_sync()

    def step(self) -> StepResult:
        """Averages the gradients, applies them, and changes the world where it must.

        Instead of ``optimizer.step()``; the gradients are zero afterwards. Whatever it returns, go
        on with the next batch: after a step that was not applied, it has the samples that are due.
        Raises what Session.end_step() does, and what optimizer and scheduler do.
        """
        self._is_due = False
        self._settings.expect_unchanged()
        if self._ledger.taken > 0:
            self._overlap.end_step()
            self._gradients.collect()
            self._buffers.collect()
        result = self.session.end_step(self._ledger.taken)
        self._settle()
        self.left = result == StepResult.LEFT
        return result

    def _apply(self) -> None:
        # A newcomer's first step is this, inside open(): what it was given is not in place yet.
        self._settings.restore()
        if self._each_epoch:
            self._settings.step_scheduler(until=self._ledger.epoch)
        self._gradients.attach()
        if self._clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self._parameters, self._clip_norm)
        self._is_applying = True
        try:
            self._optimizer.step()
        finally:
            self._is_applying = False
        self._buffers.apply()
        if not self._each_epoch:
            self._settings.step_scheduler()
        self._settings.record()

    def _settle(self) -> None:
        """Whatever became of the step: the model is at the state that members hold in common."""
        self._settings.restore()
        self._buffers.put_in_place()
        self._gradients.zero()

    def _next(self) -> Any:
        assert self._loader is not None
        batch = self._loader.next()  # which seeds, too, where it loads in this process
        if batch is not None:
            self._seed_generator()
        return batch

    def _load(
        self, dataset: Any, samples: int | None, collate: Callable[[Sequence[Any]], Any]
    ) -> Any:
        numbers = self._ledger.sample_indices(self._ledger.take(samples))
        if len(numbers) == 0:
            return None
        self._seed_generator()
        if dataset is None:
            return torch.from_numpy(numbers)
        return collate([dataset[int(number)] for number in numbers])

    def _seed_generator(self) -> None:
        first = self._ledger.leases[0]
        of_step = f"{self._seed} {self.session.step} {first.partition} {first.begin}"
        # Of the CPU, where the model is; torch.manual_seed() remembers each call for all devices.
        torch.default_generator.manual_seed(zlib.crc32(of_step.encode()))

    def _refuse_step(self, *_: Any) -> None:
        if not self._is_applying:
            raise InvalidArgument(
                "step the optimizer: an elastic trainer does that, with the gradients of all "
                "workers; call trainer.step() instead, and use bfloat16 in place of a GradScaler"
            )
