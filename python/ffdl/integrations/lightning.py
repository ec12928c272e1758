"""Elastic workers for PyTorch Lightning's Trainer. Requires lightning 2.6."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from lightning.pytorch.core.optimizer import _MockOptimizer
from lightning.pytorch.strategies import SingleDeviceStrategy
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from .. import StepResult, World
from .. import torch as ffdl_torch
from ._lightning import Callbacks, Feed, Shared, Steps, expect, expect_supported, metrics_of
from ._lightning import on_device, schedulers_of, take_over

_APPLIED = (StepResult.CONTINUE, StepResult.WORLD_CHANGED)


class ElasticStrategy(SingleDeviceStrategy):
    """Lets workers join, leave and die while ``Trainer.fit`` trains a LightningModule.

    ::

        from ffdl.integrations.lightning import ElasticStrategy

        trainer = lightning.Trainer(strategy=ElasticStrategy(), max_epochs=3)
        trainer.fit(module, loader)

    Start the program with ``ffdl run --workers 1:4 train.py``. A process that no launcher has
    started trains alone. A step has batch_size * accumulate_grad_batches samples in total, for any
    number of workers. Lightning counts a step of the job as one batch. If accumulate_grad_batches >
    1, the workers divide the micro-batches of a step among themselves. With accumulate_grad_batches
    > 1, the trained weights are bitwise equal for any number of workers.
    Only the main worker (rank 0) runs callbacks, logging, validation and saving, after steps that
    were applied. If another worker becomes the main worker, it loads the callbacks' states from the
    job's store. If a callback stops the training, all workers stop.

    options: options of ffdl.torch.elastic(), such as lease_s. To resume a training, pass
    checkpoints=ffdl.CheckpointOptions(..., resume=True), not the ckpt_path of fit().
    Not supported: manual optimization, a second fit(), training sets without a length, and the
    features that docs/guide/lightning.md lists. A feature that is not supported raises
    InvalidArgument.
    """

    def __init__(
        self, *, accelerator: Any = None, checkpoint_io: Any = None, precision_plugin: Any = None,
        **options: Any
    ) -> None:
        super().__init__(accelerator=accelerator, checkpoint_io=checkpoint_io,
                         precision_plugin=precision_plugin)
        self._options = options
        self._shared = Shared(options)
        self._elastic: ffdl_torch.Elastic | None = None
        self._parts = 1  # micro-batches of a step
        self._batch: Any = None  # in place of Lightning's
        self._has_world = False
        self._is_main = False  # as far as the callbacks know
        self._has_news = False  # of the callbacks

    @property
    def elastic(self) -> ffdl_torch.Elastic:
        """The trainer (ffdl.torch.Elastic) of this training, which exists from on_fit_start on."""
        expect(self._elastic is not None, "the training has not begun", "call fit() first")
        return self._elastic

    @property
    def is_global_zero(self) -> bool:
        return self.global_rank == 0  # for any thread, such as that of a progress bar

    @property
    def root_device(self) -> torch.device:
        if self.accelerator is None or self.accelerator.name() != "cuda":
            return torch.device("cpu")
        local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        return torch.device("cuda", local_rank % torch.cuda.device_count())

    def setup_environment(self) -> None:
        if self._fits and not self._shared.is_alone:
            rank_zero_only.rank = 1  # until the main worker is known
        super().setup_environment()

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        is_getting_ready = self._fits and self._elastic is None
        return self._shared.broadcast(obj) if is_getting_ready else obj

    def load_checkpoint(self, checkpoint_path: Any, weights_only: bool | None = None) -> Any:
        expect(not self._fits, "ckpt_path is given to fit()",
               "use ElasticStrategy(checkpoints=ffdl.CheckpointOptions(folder, ..., resume=True))")
        return super().load_checkpoint(checkpoint_path, weights_only)

    def process_dataloader(self, dataloader: Any) -> Any:
        if not self._fits or self._trainer.state.stage != "train":
            return dataloader
        return Steps(dataloader, self._parts, self._take)

    def setup(self, trainer: Any) -> None:
        if not self._fits:
            super().setup(trainer)
            return
        expect(self._elastic is None, "this strategy has trained already", "create another")
        expect_supported(trainer, trainer.accumulate_grad_batches, self._options)
        self._parts, trainer.accumulate_grad_batches = trainer.accumulate_grad_batches, 1
        if type(trainer.val_check_interval) is int:
            trainer.val_check_interval //= self._parts
        super().setup(trainer)
        expect(not isinstance(self.optimizers[0], _MockOptimizer),
               "configure_optimizers() returned no optimizer", "return one")
        fit = trainer.fit_loop
        fit.setup_data()  # unless estimated_stepping_batches was asked for
        data = fit._combined_loader.iterables
        expect(isinstance(data, Steps), "there are several training loaders",
               "use one loader over a data set with all samples")
        trainer.callbacks = Callbacks(
            trainer.callbacks, lambda: trainer.state.status != "running" or self._is_main)
        checks_now = fit.epoch_loop._should_check_val_fx
        fit.epoch_loop._should_check_val_fx = lambda one: self.is_global_zero and checks_now(one)
        fit.epoch_loop.update_lr_schedulers = self._report_metric
        self.optimizers[0].register_step_pre_hook(self._before_step)
        self._open(data)
        if not self._is_main or self.elastic.step_number > 0:
            trainer.num_sanity_val_steps = 0
        self._sigterm = signal.getsignal(signal.SIGTERM)

    def on_train_start(self) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._sigterm)
        self._trainer._signal_connector.received_sigterm = False  # it would end this process
        self._feed.begin_epochs()

    def on_validation_end(self) -> None:
        self._has_news = True

    def save_checkpoint(self, checkpoint: Any, filepath: Any, storage_options: Any = None) -> None:
        super().save_checkpoint(checkpoint, filepath, storage_options)
        self._has_news = True

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        if self._batch is not None:
            args = (self._batch, *args[1:])
        return super().training_step(*args, **kwargs)

    def optimizer_step(
        self, optimizer: Any, closure: Callable[[], Any], model: Any = None, **kwargs: Any
    ) -> Any:
        """Repeats a step of the job until it is applied, each time with its present samples."""
        feed = self._feed
        while True:
            loss = closure()
            for batch in feed.rest:
                self._batch = on_device(self._trainer, batch)
                loss = closure()
            expect(loss is not None, "training_step returned no loss", "return one for each batch")
            result = self.elastic.step()
            self._meet()
            if result in _APPLIED:
                return loss
            feed.advance()
            self._meet()
            feed.expect_epoch()
            self._batch = on_device(self._trainer, feed.begin(begun=1))

    def on_train_end(self) -> None:
        """Reports an early stop to the other workers, and leaves the job.

        The job makes one more step, which sends the report.
        """
        if self._trainer.should_stop:
            self.elastic.stop()
        loop = self._trainer.fit_loop.epoch_loop
        while self._feed.advance():
            batch = self._batch = on_device(self._trainer, self._feed.begin(begun=1))
            arguments = loop._build_kwargs(OrderedDict(), batch, loop.batch_idx)
            with contextlib.suppress(StopIteration):
                loop.automatic_optimization.run(self.optimizers[0], loop.batch_idx, arguments)
        self._set_rank()
        self._is_main = self._is_main and self.is_global_zero

    def teardown(self) -> None:
        if self._fits and self._elastic is not None:
            self._trainer.accumulate_grad_batches = self._parts
            if self._trainer.state.status == "running" and not self.is_global_zero:
                for one in self._trainer.callbacks.all():
                    one.teardown(self._trainer, self.lightning_module, "fit")
        super().teardown()

    @property
    def _trainer(self) -> Any:
        return self.lightning_module.trainer

    @property
    def _fits(self) -> bool:
        trainer = getattr(self.lightning_module, "_trainer", None)
        return trainer is not None and trainer.state.fn == "fit"

    def _open(self, data: Steps) -> None:
        fit = self._trainer.fit_loop
        seed = self._options.get("seed", int(os.environ.get("PL_GLOBAL_SEED", "0")))
        options = {"seed": seed, "grad_scaler": getattr(self.precision_plugin, "scaler", None)}
        if self._parts > 1:
            options["micro_batch_samples"] = data.batch_size
        options |= schedulers_of(self.lr_scheduler_configs) | self._options
        also_on_world = options.pop("on_world", None)

        def on_world(world: World) -> None:
            self._has_world = True
            if also_on_world is not None:
                also_on_world(world)

        self._elastic = ffdl_torch.elastic(
            self.lightning_module, self.optimizers[0],
            data.loader(fit.max_steps, fit.max_epochs, seed), on_world=on_world, **options)
        self._feed = Feed(self._trainer, self._elastic, len(data))
        self._set_rank()
        self._is_main = self.is_global_zero
        if self._is_main:
            self._shared.take_states(self._trainer)

    def _set_rank(self) -> None:
        rank_zero_only.rank = self.global_rank = 0 if self.elastic.is_main else 1

    def _meet(self) -> None:
        """Takes over the callbacks if this worker has become the main worker."""
        self._set_rank()
        was_main, self._is_main = self._is_main, self.is_global_zero
        if self._is_main and not was_main:
            self._shared.take_states(self._trainer)
            take_over(self._trainer)

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        """Calls Lightning's hooks before an optimizer step, and clips the mean gradient."""
        if self._has_world:  # else elastic() makes the optimizer's state
            self.precision_plugin._after_closure(self.lightning_module, optimizer)

    def _report_metric(self, interval: str, update_plateau_schedulers: bool) -> None:
        """Sends a ReduceLROnPlateau's metric to all workers, where ffdl steps the schedulers."""
        if update_plateau_schedulers and self.is_global_zero:
            for metric in metrics_of(self._trainer, interval):
                self.elastic.report(metric)

    def _take(self) -> Any:
        """Returns the first batch of the next step that has samples for this worker."""
        feed = self._feed
        if self._is_main and (self._has_news or feed.is_between_epochs):
            self._has_news = False
            self._shared.put_states(self._trainer)
        feed.advance()
        self._meet()
        feed.expect_epoch()
        self._batch = None
        return feed.begin(begun=0)
