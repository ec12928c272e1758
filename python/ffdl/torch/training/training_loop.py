"""The base class of the trainers that elastic() and local_sgd() return."""

from __future__ import annotations

import os
import signal
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import default_collate

from ... import (
    InvalidArgument,
    SampleLedger,
    Session,
    StepResult,
    World,
    WorldChanged,
    job_environment,
    open_store,
)
from ...data import ElasticLoader, parts
from .. import device as gpu
from .common_state import Settings


# The number of processes that another launcher has started: torchrun, Open MPI, Slurm or MPICH.
_SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", "PMI_SIZE")


def alone_if_not_launched(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the session's options. If no launcher started this worker, adds a store in memory."""
    if options.get("store") is not None or job_environment() is not None:
        return options
    if any(os.environ.get(size, "1") != "1" for size in _SIZES):
        return options  # one of several processes, which must find each other: open() names the way
    print("ffdl: training alone; 'ffdl run --workers 1:4 SCRIPT' starts more workers",
          file=sys.stderr)
    return {"id": "alone"} | options | {"store": open_store("mem://")}


def generators_of(model: torch.nn.Module) -> list[torch.Generator]:
    """Returns the generators that are attributes of the model's modules."""
    return [one for module in model.modules() for one in vars(module).values()
            if isinstance(one, torch.Generator)]


class TrainingLoop:
    """Iterates over the batches of a session's steps, and finishes the session.

    session: the ffdl.Session.
    left: True if this worker was asked to leave and has left. A program whose worker has left
    should exit without the code that follows the training.
    """

    session: Session
    _device: torch.device
    _generators: list[torch.Generator]  # those of the model
    _settings: Settings  # with the seed

    def __init__(self, doing: str, samples: ElasticLoader | SampleLedger) -> None:
        if not isinstance(samples, (ElasticLoader, SampleLedger)):
            raise InvalidArgument(
                f"{doing}: the samples are a {type(samples).__name__}; pass an "
                "ffdl.data.ElasticLoader, which replaces a DataLoader, or a SampleLedger"
            )
        self._loader = samples if isinstance(samples, ElasticLoader) else None
        self._ledger = samples if self._loader is None else self._loader.ledger
        self._is_due = False  # step(), for the last batch
        self._part = 0  # samples of that batch
        self._is_empty = False  # they are corrupt, and the loop does not see it
        self._rest = 0  # samples of this step after that batch
        self._steps_max: int | None = None
        self._is_main = False  # of the present world; kept for other threads
        self._has_ended = False
        self._handler: Callable[[int, Any], Any] | None = None  # of SIGTERM
        self._other_handler: Callable[[int, Any], Any] | None = None  # of the loop's own
        self.left = False

    @property
    def step_number(self) -> int:
        """The number of steps that the job has applied since the training began."""
        return self.session.step

    @property
    def is_main(self) -> bool:
        """True on the main worker of the present world, which logs and evaluates for all workers.

        If the main worker dies or leaves, another worker becomes the main worker. So read is_main
        again before each use. After the training, the main worker of the last step stays the main
        worker. If the main worker dies after the training, there is no main worker any more. A
        worker that has left is never the main worker. Any thread may read is_main.
        """
        return self._is_main and not self.left

    def batches(
        self,
        dataset: Any = None,
        *,
        samples: int | None = None,
        steps: int | None = None,
        collate: Callable[[Sequence[Any]], Any] = default_collate,
    ) -> Iterator[Any]:
        """Iterates over this worker's batches in all steps in which the worker has samples.

        Call step() after each batch. A step has several batches only if elastic() received
        ``micro_batch_samples``, if a batch rule sets ``micro_batch_max``, or in local_sgd(). At the
        end of the training, batches() waits until the last step is stable, so that no worker can
        undo it, and leaves the job.

        If the trainer has an ElasticLoader, omit dataset, samples and collate.
        dataset: ``dataset[number]`` is the sample with this number. A batch is the result of
        ``collate`` for a list of samples. If `dataset` is None, a batch is a tensor of sample
        numbers, int64[n].
        samples: the maximum number of this worker's samples in a step. If the ledger has
        SampleOrder.GLOBAL, pass samples=None, because the ledger determines the samples. For
        local_sgd(), pass the number of samples of an inner step.
        steps: the iteration ends when the job has applied this number of steps since the training
        began, or when all epochs are done. All workers must pass the same `steps`. The default of
        `steps` is the loader's `steps` if set, else no limit.
        """
        self._begin_loop(dataset, samples, steps, collate)
        yield from self._until_over(lambda: self._steps(dataset, samples, collate))

    def step(self) -> StepResult | None:
        raise NotImplementedError

    def _begin_loop(
        self, dataset: Any, samples: int | None, steps: int | None, collate: Any
    ) -> None:
        """Checks the arguments of batches()."""
        if self._loader is not None:
            if dataset is not None or samples is not None or collate is not default_collate:
                raise InvalidArgument(
                    "iterate over batches: the loader already has the data set and its options; "
                    "leave dataset, samples and collate out"
                )
            if steps is None:
                steps = self._loader.steps
        if steps is not None and steps < 1:
            raise InvalidArgument(
                f"iterate over batches: 'steps' is {steps}; give at least 1, or None for no limit"
            )
        self._steps_max = steps
        self._expect_samples(samples)

    def _note_world(self, world: World) -> None:
        if not self._has_ended:
            self._is_main = world.rank == 0

    def _until_over(self, loop: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """Iterates over the loop's batches, and finishes the session.

        If all members return to a checkpoint at the end, the loop runs again.
        """
        while True:
            yield from loop()
            if self.left:
                return
            self._has_ended = True  # others may leave before this one, which changes the world
            try:
                self.session.finish()
                self.left = not self.session.is_finished
                return
            except WorldChanged:  # all members returned to a checkpoint, and the ledger with them
                self._has_ended = False
                self._note_world(self.session.world)
                self._settle()

    def _expect_samples(self, samples: int | None) -> None:
        """Checks the argument `samples` of batches()."""
        raise NotImplementedError

    def _plan_step(self, samples: int | None) -> tuple[int | None, parts.Cut]:
        """Returns the number of samples to take in this step, and the function that cuts them.

        None: the loader's or the ledger's default number. Each part of the cut is a batch.
        """
        raise NotImplementedError

    def _begin_step(self) -> None:
        """Runs before the first batch of a step."""

    def _begin_part(self, ranges: parts.Ranges) -> None:
        """Runs before each batch."""
        if self._rest == 0:  # the first batch
            self._rest = self._ledger.taken
        self._part = parts.count(ranges)
        self._rest -= self._part
        self._is_due = True

    def _settle(self) -> None:
        """Sets the model to the members' common state, whatever the result of the step was."""
        raise NotImplementedError

    def _leave_on_sigterm(self) -> None:
        """On the main thread, installs a SIGTERM handler that asks this worker to leave."""
        if threading.current_thread() is threading.main_thread():
            self._handler = self._on_sigterm
            signal.signal(signal.SIGTERM, self._handler)

    def _keep_sigterm(self) -> None:
        """Installs the SIGTERM handler again if the loop replaced it.

        On SIGTERM, the loop's handler is called, too.
        """
        if self._handler is None or threading.current_thread() is not threading.main_thread():
            return
        present = signal.getsignal(signal.SIGTERM)
        if present is not self._handler and callable(present):
            self._other_handler = present
            signal.signal(signal.SIGTERM, self._handler)

    def _on_sigterm(self, number: int, frame: Any) -> None:
        self.session.ask_to_leave()
        other, self._other_handler = self._other_handler, None  # it may call this one
        if other is not None:
            try:
                other(number, frame)
            finally:
                self._other_handler = other

    def _steps(
        self, dataset: Any, samples: int | None, collate: Callable[[Sequence[Any]], Any]
    ) -> Iterator[Any]:
        """Iterates over the batches until the training is over, or this worker has left."""
        while not self._is_over():
            step = self.session.step
            self._keep_sigterm()
            self._begin_step()
            self._rest = 0
            has_part = False
            for ranges, batch in self._parts(dataset, samples, collate):
                has_part = True
                self._begin_part(ranges)
                self._is_empty = batch is None
                if batch is None:  # its samples are corrupt and left out: they contribute nothing
                    self.step()
                    continue
                yield batch
                if self._is_due:
                    raise InvalidArgument(
                        f"take the next batch: step() was not called in step "
                        f"{step + 1}; call step() once after each backward()"
                    )
            if not has_part:
                self.step()
            if self.left:
                return

    def _is_over(self) -> bool:
        is_last = self._steps_max is not None and self.session.step >= self._steps_max
        return is_last or self._settings.has_stopped or self._ledger.is_done

    def _parts(
        self, dataset: Any, samples: int | None, collate: Callable[[Sequence[Any]], Any]
    ) -> Iterator[tuple[parts.Ranges, Any]]:
        """Yields (ranges of the batch's samples, batch) for each batch of the present step."""
        planned, cut = self._plan_step(samples)
        if self._loader is not None:
            for ranges, batch in self._loader.next_parts(cut, planned):
                self._seed_generator(ranges)  # the loader does, too, if it loads in this process
                yield ranges, batch
            return
        taken = self._ledger.take(planned)
        step = tuple((one.partition, one.begin, one.end) for one in taken)
        for ranges in cut(step):
            numbers = self._ledger.sample_indices(ranges)
            self._seed_generator(ranges)
            if dataset is None:
                yield ranges, torch.from_numpy(numbers)
            else:
                yield ranges, collate([dataset[int(number)] for number in numbers])

    def _seed_generator(self, ranges: parts.Ranges) -> None:
        partition, begin, _ = ranges[0]
        of_step = f"{self._settings.seed} {self.session.step} {partition} {begin}"
        number = zlib.crc32(of_step.encode())
        gpu.seed(self._device, number)
        for one in self._generators:
            one.manual_seed(number)
