"""A Hugging Face Trainer with workers that may join, leave and die. Requires transformers 5.

Import this module before you create TrainingArguments, which otherwise start torch.distributed.
"""

from __future__ import annotations

import math
import os
from typing import Any

import torch

from .. import InvalidArgument, SampleOrder, Shuffle, StepResult
from .. import torch as ffdl_torch
from ..data import ElasticLoader

_APPLIED = (StepResult.CONTINUE, StepResult.WORLD_CHANGED)


def _become_one_process() -> None:
    """Removes the launcher's variables, so that accelerate creates no process group.

    LOCAL_RANK selects the worker's GPU. The Trainer sees only this GPU.
    """
    if "FFDL_STORE" not in os.environ:
        return
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    # Counted without CUDA, which reads the variable when it begins.
    count = torch.cuda.device_count()
    if count > 0 and not torch.cuda.is_initialized():
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        gpus = visible.split(",") if visible else [str(i) for i in range(count)]
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[local_rank % len(gpus)]
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        os.environ.pop(name, None)


_become_one_process()

import transformers  # noqa: E402  # reads the variables


class _Loader:
    """The loader for the Trainer. Its length is the number of micro-batches in an epoch."""

    def __init__(self, loader: ElasticLoader, dataset: Any, parts: int) -> None:
        self.loader = loader
        self.dataset = dataset
        self._parts = parts

    def __len__(self) -> int:
        return len(self.loader) * self._parts


class ElasticTrainer(transformers.Trainer):
    """A ``transformers.Trainer`` whose workers may join, leave and die during the training.

    ::

        from ffdl.integrations.huggingface import ElasticTrainer

        trainer = ElasticTrainer(model=model, args=arguments, train_dataset=dataset)
        trainer.train()

    Start the program with ``ffdl run --workers 1:4 train.py``. A process that no launcher has
    started trains alone. A step has per_device_train_batch_size * gradient_accumulation_steps
    samples in total, for any number of workers. If gradient_accumulation_steps > 1, the workers
    divide the micro-batches of a step among themselves. With gradient_accumulation_steps > 1, the
    trained weights are bitwise equal for any number of workers. After an applied step, only the
    main worker (rank 0) logs, evaluates and saves. If a callback stops the training on one worker,
    all workers stop. The constructor has the arguments of Trainer, and the argument `elastic`.

    elastic: a dict of options for ffdl.torch.elastic(). To resume, pass
    {"checkpoints": ffdl.CheckpointOptions(..., resume=True)}, not resume_from_checkpoint.
    Not supported: DeepSpeed, FSDP, several GPUs per worker, training sets without a length, a
    second train(), and the arguments that docs/guide/huggingface.md lists. A feature that is not
    supported raises InvalidArgument.
    """

    def __init__(self, *args: Any, elastic: dict[str, Any] | None = None, **kwargs: Any) -> None:
        self._elastic_options = elastic or {}
        self._elastic: ffdl_torch.Elastic | None = None
        super().__init__(*args, **kwargs)
        self._expect_supported()

    @property
    def elastic(self) -> ffdl_torch.Elastic | None:
        """The trainer (ffdl.torch.Elastic) of this training, or None before train()."""
        return self._elastic

    def train(self, resume_from_checkpoint: Any = None, **kwargs: Any) -> Any:
        if resume_from_checkpoint:
            raise InvalidArgument(
                "resume an ElasticTrainer: resume_from_checkpoint is given; use "
                "elastic={'checkpoints': ffdl.CheckpointOptions(folder, ..., resume=True)}"
            )
        if self._elastic is not None:
            raise InvalidArgument(
                "train by ElasticTrainer: this trainer has trained already; create another")
        return super().train(**kwargs)

    def get_train_dataloader(self) -> Any:
        if not hasattr(self.train_dataset, "__len__"):
            raise InvalidArgument(
                "train by ElasticTrainer: the training set has no length; use a data set with a "
                "length, or pass ffdl.data.IterableShards to ffdl.torch.elastic()"
            )
        arguments = self.args
        parts = arguments.gradient_accumulation_steps
        samples = self._train_batch_size * parts
        steps_of_epoch = math.ceil(len(self.train_dataset) / samples)
        steps = arguments.max_steps
        if steps <= 0:
            steps = math.ceil(arguments.num_train_epochs * steps_of_epoch)
        is_in_order = arguments.train_sampling_strategy == "sequential"
        loader = ElasticLoader(
            self.train_dataset, batch_samples=samples, steps=steps,
            **({"micro_batch_samples": self._train_batch_size} if parts > 1 else {}),
            order=SampleOrder.GLOBAL,
            shuffle=Shuffle.NONE if is_in_order else Shuffle.SAMPLES,
            seed=arguments.data_seed or arguments.seed,
            collate_fn=self._get_collator_with_removed_columns(self.data_collator, "training"),
            num_workers=arguments.dataloader_num_workers,
            pin_memory=arguments.dataloader_pin_memory)
        return _Loader(loader, self.train_dataset, parts)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        return super().create_scheduler(num_training_steps, optimizer or _plain(self.optimizer))

    def is_world_process_zero(self) -> bool:
        return self._elastic is None or self._elastic.is_main

    def is_local_process_zero(self) -> bool:
        return self.is_world_process_zero()

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        if self.is_world_process_zero():
            super().save_model(output_dir, _internal_call)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if self.is_world_process_zero():
            super().log(logs, start_time)

    def _expect_supported(self) -> None:
        arguments = self.args
        for is_there, what in (
            (self.is_deepspeed_enabled, "DeepSpeed is configured"),
            (self.is_fsdp_enabled, "FSDP is configured"),
            (arguments.n_gpu > 1, f"this process has {arguments.n_gpu} GPUs"),
            (arguments.load_best_model_at_end, "load_best_model_at_end is set"),
            (arguments.world_size > 1, "a process group exists"),
            (arguments.eval_on_start, "eval_on_start is set"),
            (arguments.auto_find_batch_size, "auto_find_batch_size is set"),
            (arguments.dataloader_drop_last, "dataloader_drop_last is set"),
            ("greedy" in str(arguments.lr_scheduler_type).lower(), "the scheduler is greedy"),
            (arguments.train_sampling_strategy not in ("random", "sequential"),
             f"train_sampling_strategy is '{arguments.train_sampling_strategy}'"),
            (self.compute_loss_func is not None, "compute_loss_func is given"),
        ):
            if is_there:
                raise InvalidArgument(
                    f"make an ElasticTrainer: {what}, which ElasticTrainer does not support; "
                    "remove this setting, and import ffdl.integrations.huggingface before "
                    "TrainingArguments are made"
                )

    def _prepare_for_training(
        self, max_steps: int, train_dataloader: Any, resume_from_checkpoint: Any
    ) -> Any:
        prepared = super()._prepare_for_training(
            max_steps, train_dataloader, resume_from_checkpoint)
        arguments = self.args
        options: dict[str, Any] = {"clip_norm": arguments.max_grad_norm or None}
        if arguments.gradient_accumulation_steps > 1:
            options["micro_batch_samples"] = self._train_batch_size
        if arguments.fp16:
            options["grad_scaler"] = self.accelerator.scaler
        self._elastic = ffdl_torch.elastic(
            self.model, _plain(self.optimizer), train_dataloader.loader,
            scheduler=_plain(self.lr_scheduler), seed=arguments.seed,
            **(options | self._elastic_options))
        return prepared

    def _run_epoch(
        self, *, model: Any, train_dataloader: Any, trial: Any, ignore_keys_for_eval: Any,
        start_time: float, **_: Any
    ) -> None:
        """Runs all epochs, because a worker that joins later begins within an epoch."""
        elastic = self._elastic
        assert elastic is not None
        callbacks = self.callback_handler
        of_epoch = len(train_dataloader.loader)
        self.current_gradient_accumulation_steps = 1  # the mean is over the samples of all workers
        self._follow(of_epoch)
        self._globalstep_last_logged = self._initial_global_step = self.state.global_step
        for batches in elastic.steps():
            self._follow(of_epoch)
            self.control = callbacks.on_step_begin(self.args, self.state, self.control)
            loss = torch.zeros_like(self._tr_loss)
            parts = 0
            for inputs in batches:
                loss += self.training_step(model, inputs)
                parts += 1
                self.current_flos += float(self.floating_point_ops(inputs))
            rate = self._get_learning_rate()
            self.control = callbacks.on_pre_optimizer_step(self.args, self.state, self.control)
            if elastic.step() not in _APPLIED:
                continue
            self._follow(of_epoch)
            if loss.isfinite() or not self.args.logging_nan_inf_filter:
                self._tr_loss += loss / max(parts, 1)
            self.control = callbacks.on_optimizer_step(self.args, self.state, self.control)
            self.control = callbacks.on_step_end(self.args, self.state, self.control)
            is_last = elastic.step_number >= self.state.max_steps
            if elastic.step_number % of_epoch == 0 or is_last or self.control.should_training_stop:
                self.control = callbacks.on_epoch_end(self.args, self.state, self.control)
            if elastic.is_main:
                self._maybe_log_save_evaluate(
                    self._tr_loss, None, model, trial, self.state.epoch, ignore_keys_for_eval,
                    start_time, learning_rate=rate)
            else:
                self._leave_to_main()
            if self.control.should_training_stop and not is_last:
                elastic.stop()
        self._follow(of_epoch)
        self.control.should_training_stop = True

    def _evaluate(
        self, trial: Any, ignore_keys_for_eval: Any, skip_scheduler: bool = False
    ) -> dict[str, float]:
        """Evaluates. Sends the metric to all workers, which then step their ReduceLROnPlateau."""
        metrics = super()._evaluate(trial, ignore_keys_for_eval, skip_scheduler=True)
        if isinstance(_plain(self.lr_scheduler), torch.optim.lr_scheduler.ReduceLROnPlateau):
            name = self.args.metric_for_best_model or "loss"
            value = metrics.get(name if name.startswith("eval_") else f"eval_{name}")
            if value is not None and math.isfinite(value) and self._elastic is not None:
                self._elastic.report(value)
        return metrics

    def _follow(self, of_epoch: int) -> None:
        """Sets the Trainer's counts of steps and epochs to those of the job."""
        assert self._elastic is not None
        self.state.global_step = self._elastic.step_number
        self.state.epoch = self._elastic.step_number / of_epoch
        self.state.is_world_process_zero = self.state.is_local_process_zero = self._elastic.is_main

    def _leave_to_main(self) -> None:
        """Leaves logging, evaluation and saving to the main worker."""
        if self.control.should_log:
            self._total_loss_scalar += self._tr_loss.item()
            self._tr_loss.zero_()
            self._globalstep_last_logged = self.state.global_step
        self.control.should_log = False
        self.control.should_evaluate = self.control.should_save = False


def _plain(wrapped: Any) -> Any:
    """Returns an optimizer or scheduler without accelerate's wrapper."""
    is_wrapped = type(wrapped).__module__.startswith("accelerate")
    return wrapped.optimizer if is_wrapped else wrapped
