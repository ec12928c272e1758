"""Helpers of ElasticStrategy for PyTorch Lightning: data, callbacks, and checks of options."""

from __future__ import annotations

import io
import json
import math
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import lightning.pytorch.callbacks as of_lightning
import torch
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.trainer import call
from lightning.pytorch.utilities.model_helpers import is_overridden
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from lightning.pytorch.utilities.signature_utils import is_param_in_hook_signature
from torch.utils.data import BatchSampler, IterableDataset, RandomSampler, SequentialSampler

from .. import Conflict, Error, InvalidArgument, NotFound, SampleOrder, Shuffle, Store
from .. import job_environment, open_store
from ..data import ElasticLoader

# Callbacks that change the training on the worker that runs them; the others would not follow.
_CHANGERS = (
    of_lightning.BaseFinetuning, of_lightning.BatchSizeFinder, of_lightning.ModelPruning,
    of_lightning.GradientAccumulationScheduler, of_lightning.LearningRateFinder,
    of_lightning.StochasticWeightAveraging, of_lightning.WeightAveraging)


def expect(is_met: bool, seen: str, advice: str) -> None:
    if not is_met:
        raise InvalidArgument(f"train with ElasticStrategy: {seen}; {advice}")


def expect_supported(trainer: Any, parts: int, options: dict[str, Any]) -> None:
    module = trainer.lightning_module
    changers = [type(one).__name__ for one in trainer.callbacks if isinstance(one, _CHANGERS)]
    every = trainer.val_check_interval
    for is_there, seen, advice in (
        (not module.automatic_optimization, "the module sets automatic_optimization = False",
         "use automatic optimization, or ffdl.torch.elastic() in a loop of your own"),
        (trainer.limit_train_batches != 1.0 or type(trainer.limit_train_batches) is int,
         "limit_train_batches, overfit_batches or fast_dev_run limits the training batches",
         "set max_steps, or give a smaller data set"),
        (trainer.reload_dataloaders_every_n_epochs > 0, "reload_dataloaders_every_n_epochs is set",
         "leave it out"),
        (trainer._accelerator_connector._layer_sync is not None, "sync_batchnorm is set",
         "leave it out: running statistics are averaged over the workers"),
        (torch.distributed.is_available() and torch.distributed.is_initialized(),
         "a process group exists", "create none: the workers connect without a process group"),
        (options.get("batch_rule") is not None, "batch_rule is given",
         "leave it out: Lightning needs steps of equal size"),
        (bool(changers), f"the Trainer has {', '.join(changers)}",
         "leave it out: it would change only one worker"),
        (is_param_in_hook_signature(module.training_step, "dataloader_iter", explicit=True),
         "training_step takes dataloader_iter", "use the parameter 'batch' instead"),
        (is_overridden("lr_scheduler_step", module), "the module defines lr_scheduler_step",
         "use a scheduler of torch.optim.lr_scheduler"),
        (type(every) is int and every % parts != 0,
         f"val_check_interval is {every}, and a step has {parts} batches",
         "set a multiple of these batches, or a fraction of an epoch"),
    ):
        expect(not is_there, seen, advice)


def schedulers_of(configs: list[Any]) -> dict[str, Any]:
    """Returns options of elastic() for the schedulers that configure_optimizers() created."""
    units = {one.interval for one in configs if not one.reduce_on_plateau}
    expect(len(units) <= 1 and all(one.frequency == 1 for one in configs)
           and sum(one.reduce_on_plateau for one in configs) <= 1,
           "the schedulers differ in 'interval', have a 'frequency' other than 1, or several are a "
           "ReduceLROnPlateau",
           "use one interval, frequency 1, and at most one ReduceLROnPlateau")
    options: dict[str, Any] = {"scheduler": [one.scheduler for one in configs] or None}
    return options | ({"scheduler_unit": units.pop()} if units else {})


def metrics_of(trainer: Any, interval: str) -> Iterator[float]:
    """Yields the metric of each ReduceLROnPlateau that Lightning steps at this interval."""
    for one in trainer.lr_scheduler_configs:
        if one.reduce_on_plateau and one.interval == interval:
            metric = trainer.callback_metrics.get(one.monitor)
            expect(metric is not None or not one.strict,
                   f"a ReduceLROnPlateau needs '{one.monitor}', which was not logged",
                   "log it, or set strict=False for the scheduler")
            if metric is not None and math.isfinite(metric):
                yield float(metric)


class Steps:
    """The training set that Lightning sees. Lightning counts a step of the job as one batch."""

    def __init__(self, given: Any, parts: int, take: Callable[[], Any]) -> None:
        """given: the DataLoader. parts: micro-batches per step. take: returns the next batch."""
        batches = getattr(given, "batch_sampler", None)
        sampler = getattr(batches, "sampler", None)
        expect(
            type(batches) is BatchSampler and not isinstance(given.dataset, IterableDataset)
            and type(sampler) in (RandomSampler, SequentialSampler)
            and not getattr(sampler, "replacement", False) and len(sampler) == len(given.dataset),
            f"the training batches come from a {type(given).__name__} that does not return each "
            "sample of a data set exactly once",
            "use a DataLoader with shuffle=True or False, without a sampler, over a data set with "
            "a length")
        self.dataset, self.batch_size, self.drop_last = given.dataset, batches.batch_size, False
        samples = len(given.dataset)
        expect(not batches.drop_last or samples % self.batch_size == 0,
               f"drop_last is set, and {samples} samples are no multiple of {self.batch_size}",
               "leave drop_last out: each sample of an epoch is used")
        expect(samples > 0, "the training data set is empty", "give one with samples")
        expect(given.generator is None and getattr(sampler, "generator", None) is None,
               "the training DataLoader has a generator",
               "leave the generator out: seed_everything() seeds the order of the samples")
        expect(given.timeout == 0, f"the training DataLoader has timeout={given.timeout}",
               "leave the timeout out: a step waits for its samples")
        self._given = given
        self._is_shuffled = isinstance(sampler, RandomSampler)
        self._parts = parts
        self._take = take

    def __len__(self) -> int:
        return math.ceil(len(self.dataset) / (self.batch_size * self._parts))

    def __iter__(self) -> Steps:
        return self

    def __next__(self) -> Any:
        return self._take()

    def loader(self, max_steps: int, max_epochs: int, seed: int) -> ElasticLoader:
        """Returns the job's loader, which ends at max_steps or max_epochs. -1: no such limit."""
        given = self._given
        ends = [end for end in (max_steps, max_epochs * len(self)) if end >= 0]
        context = given.multiprocessing_context
        return ElasticLoader(
            self.dataset, batch_samples=self.batch_size * self._parts,
            **({"micro_batch_samples": self.batch_size} if self._parts > 1 else {}),
            **({"steps": max(1, min(ends))} if ends else {"epochs": 0}),
            order=SampleOrder.GLOBAL, seed=seed,
            shuffle=Shuffle.SAMPLES if self._is_shuffled else Shuffle.NONE,
            collate_fn=given.collate_fn, num_workers=given.num_workers,
            prefetch_factor=given.prefetch_factor or 2, worker_init_fn=given.worker_init_fn,
            multiprocessing_context=context.get_start_method() if context else None,
            pin_memory=given.pin_memory)


class Feed:
    """Passes the job's steps to Lightning as batches, and updates Lightning's counters.

    rest: an iterator over the batches of this step that Lightning has not taken yet.
    """

    def __init__(self, trainer: Any, elastic: Any, of_epoch: int) -> None:
        """of_epoch: the number of the job's steps in an epoch."""
        self.rest: Iterator[Any] = iter(())
        self._trainer = trainer
        self._fit = trainer.fit_loop
        self._elastic = elastic
        self._of_epoch = of_epoch
        self._steps = elastic.steps()
        self._held: tuple[Any, Iterator[Any]] | None = None  # of the step to come

    @property
    def is_between_epochs(self) -> bool:
        return self._elastic.step_number % self._of_epoch == 0

    def advance(self) -> bool:
        """Finds this worker's next step with batches. Returns False if the training is over."""
        if self._held is not None:
            return True
        for batches in self._steps:
            first = next(batches, None)
            if first is not None:
                self._held = first, batches
                return True
            self._elastic.step()  # all samples are corrupt and left out
        return False

    def begin(self, begun: int) -> Any:
        """Returns the first batch of a step. begun: 1 if Lightning has counted the step, else 0."""
        assert self._held is not None
        first, self.rest = self._held
        self._held = None
        self._follow(begun)
        return first

    def begin_epochs(self) -> None:
        self._set_epoch(self._elastic.step_number // self._of_epoch, begun=0)

    def expect_epoch(self) -> None:
        """Ends Lightning's epoch if the next step is in another epoch, or if no step is left."""
        step = self._elastic.step_number
        epoch = step // self._of_epoch
        if self._held is None:
            epoch = math.ceil(step / self._of_epoch)
            self._trainer.should_stop = True
            self._fit.min_epochs, self._fit.epoch_loop.min_steps = 0, None
            self._follow(begun=0)
        elif epoch == self._trainer.current_epoch:
            return
        self._set_epoch(max(epoch - 1, 0), begun=1)
        raise StopIteration

    def _set_epoch(self, epoch: int, begun: int) -> None:
        """Sets Lightning's epoch counters. begun: 1 if the epoch has begun, else 0."""
        progress = self._fit.epoch_progress
        for one in (progress.total, progress.current):
            one.ready = one.started = epoch + begun
            one.processed = one.completed = epoch

    def _follow(self, begun: int) -> None:
        step = self._elastic.step_number
        in_epoch = step % self._of_epoch
        loop, fetcher = self._fit.epoch_loop, self._fit._data_fetcher
        batches = loop.batch_progress
        steps = loop.automatic_optimization.optim_progress.optimizer.step
        for batch, one, count in ((batches.total, steps.total, step),
                                  (batches.current, steps.current, in_epoch)):
            batch.ready = batch.started = one.ready = count + begun
            batch.processed = batch.completed = one.completed = count
        loop._batches_that_stepped = step
        fetcher.fetched = in_epoch + begun
        if begun:
            batches.is_last_batch = fetcher.done = in_epoch + 1 == self._of_epoch


def on_device(trainer: Any, batch: Any) -> Any:
    """Converts a batch and moves it to the device, as Lightning does for its own loaders."""
    batch = trainer.precision_plugin.convert_input(batch)
    batch = trainer.lightning_module._on_before_batch_transfer(batch, dataloader_idx=0)
    batch = call._call_strategy_hook(trainer, "batch_to_device", batch, dataloader_idx=0)
    trainer._results.batch, trainer._results.batch_size = batch, None
    return batch


class Callbacks(list):  # type: ignore[type-arg]
    """The Trainer's callbacks. On a worker other than the main worker, the iterator is empty."""

    def __init__(self, callbacks: list[Any], are_called: Callable[[], bool]) -> None:
        super().__init__(callbacks)
        self._are_called = are_called
        self._thread = threading.get_ident()

    def __iter__(self) -> Iterator[Any]:
        is_other = threading.get_ident() != self._thread  # that of a progress bar finds its own
        return super().__iter__() if is_other or self._are_called() else iter(())

    def all(self) -> Iterator[Any]:
        return super().__iter__()


def take_over(trainer: Any) -> None:
    """Starts the callbacks and loggers of a worker that has become the main worker."""
    for logger in trainer.loggers:
        if isinstance(logger, CSVLogger) and logger._experiment is None:
            logger._version = None  # it would delete the file of the worker before
    for hook in ("on_fit_start", "on_train_start", "on_train_epoch_start"):
        call._call_callback_hooks(trainer, hook)


class Shared:
    """Shares Lightning's broadcast values and callbacks' states through the job's store.

    A worker that trains alone has no store, and shares nothing.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        """options: the options of Session.open()."""
        environment = job_environment()
        job = options.get("job") or (environment.job if environment else "")
        self._prefix = f"lightning/{job}/"
        self._store: Store | None = options.get("store")
        if self._store is None and environment is not None:
            self._store = open_store(environment.store_url, secret=environment.store_secret)
        self._broadcasts = 0
        self._states = b""

    @property
    def is_alone(self) -> bool:
        return self._store is None

    def broadcast(self, value: Any) -> Any:
        """Returns the value that the first caller passed. Paths are returned as text.

        The n-th call of broadcast() returns the same value on every worker.
        """
        if self._store is None:
            return value
        try:
            text = json.dumps(value, default=os.fspath)
        except (TypeError, ValueError) as error:
            expect(False, f"a {type(value).__name__} is broadcast before the training ({error})",
                   "broadcast only values of JSON: numbers, text, lists and dictionaries")
        self._broadcasts += 1
        key = f"{self._prefix}broadcast/{self._broadcasts}"
        try:
            self._store.compare_and_put(key, 0, text)
        except Conflict:
            text = self._store.get(key).value
        return json.loads(text)

    def put_states(self, trainer: Any) -> None:
        """Stores the callbacks' states in the job's store, for the next main worker."""
        if self._store is None:
            return
        image = io.BytesIO()
        torch.save(call._call_callbacks_state_dict(trainer), image)
        if image.getvalue() == self._states:
            return
        self._states = image.getvalue()
        try:
            self._store.put(f"{self._prefix}callbacks", self._states)
        except Error as error:
            rank_zero_warn(f"ffdl: other workers will not have the callbacks' states: {error}")

    def take_states(self, trainer: Any) -> None:
        if self._store is None:
            return
        try:
            self._states = self._store.get(f"{self._prefix}callbacks").value
            states = torch.load(io.BytesIO(self._states), weights_only=True)
        except NotFound:
            return
        except Exception as error:  # of a store, or of a state that holds more than plain values
            rank_zero_warn(f"ffdl: the callbacks start without their stored states here: {error}")
            return
        call._call_callbacks_load_state_dict(trainer, {"callbacks": states})
