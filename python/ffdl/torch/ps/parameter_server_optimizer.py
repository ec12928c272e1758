"""An optimizer whose weights and state are in a parameter server that learners share."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ... import (
    InvalidArgument,
    Learner,
    LearningRateSchedule,
    ParameterServer,
    PullMode,
    PushResult,
    Synchrony,
)
from ..._options import call_with
from ...data import ElasticLoader, forecast, parts
from .. import device as gpu
from .learner_link import DeviceLink, HostLink, Link, Samples
from .server_role import KEEP_S, ServerRole
from .server_rule import rule_of, schedule_of
from .sparse_gradient import SparseGradient


class ParameterServerOptimizer(torch.optim.Optimizer):
    """An optimizer whose ``step()`` pushes a gradient to a parameter server and pulls weights.

    ::

        opt = ffdl.torch.ParameterServerOptimizer(torch.optim.Adam(model.parameters()), "digits")
        for images, labels in loader:
            opt.zero_grad()
            loss(model(images), labels).backward()
            opt.step()
        opt.close()

    The learners of a server are the processes on one host that pass the same `name`. Start the
    learners with ``ffdl run`` or by other means. Learners may join and leave at any time. The first
    learner creates the server with its model's weights, and runs the server on separate threads. If
    the first learner dies, another learner's process takes over the server, with all gradients that
    were pushed. With Synchrony.ASYNC (the default), no learner waits for another learner.

    optimizer: defines the server's update rule and hyperparameters. The optimizer is SGD, Adam,
    AdamW, SparseAdam or Adagrad, with one parameter group. SGD may have momentum and nesterov.
    ffdl.torch.ps.server_rule.rule_of() lists the update rules. ffdl never calls optimizer.step().
    scheduler: a scheduler of ``torch.optim.lr_scheduler`` that schedule_of() supports, or an
    ffdl.LearningRateSchedule. Each update of the server, from any learner's gradients, is one step
    of the schedule. So the server steps the schedule, and the loop must not step the scheduler. If
    the loop changes the optimizer's learning rate, step() raises InvalidArgument.
    slot: the number of this learner's slot, from 0 to learners_max - 1. To continue the work of a
    killed process, pass the slot of that process, and begin with the sample at the position
    ``committed(slot)``. By default, `slot` is any free slot.
    timeout_s: the longest time that a call waits for the server or for other learners. Only close()
    can wait longer than timeout_s, because it waits for the end of the other learners.
    server_options: options of ParameterServer.create(), such as synchrony, staleness, learners_max,
    clip_norm, non_finite, partitions and cut. Only the server_options of the process that creates
    the server have an effect. If ``gradient_type`` is "bfloat16" or "float16", gradients are sent
    as 16-bit numbers. Gradients of 16 bits halve the bytes that are copied from a GPU and that the
    server reads.
    overlap: if True, gradients and weights of a model on a GPU are transferred while the next
    mini-batch computes. With overlap, a mini-batch uses weights that were requested when the
    previous mini-batch began. If a push fails, the next step() raises the error. batches() waits
    for the push before it takes the next batch. By default, `overlap` is True if the model is on a
    GPU, Synchrony.ASYNC is used, and ``rows_max`` is not set. The value overlap=True raises
    InvalidArgument if the model is on the CPU, another synchrony is used, or ``rows_max`` is set.

    All parameters of the model must be float32, and all must be on the CPU or on one GPU. If the
    server option ``device`` is set, the server applies gradients on the GPU with this number,
    otherwise on the CPU. The constructor moves the parameters into one array, so that one copy
    transfers all weights. Several calls of backward() before a step() accumulate gradients. Sparse
    gradients, such as those of ``Embedding(sparse=True)``, are converted to dense gradients, unless
    ``rows_max`` is among the server_options. ``rows_max`` is the maximum number of rows and dense
    parameters in a gradient. While the server has not applied a learner's previous gradient, the
    learner adds up its further gradients. ``rows_max`` also limits the rows of the sum of a
    learner's gradients. If ``rows_max`` is set, rows and parameters that no sample uses are not
    sent, so the server does not change their weights and state. PyTorch's SparseAdam does not
    change unused rows either, but PyTorch's Adam does. An optimizer with momentum or weight decay,
    Adam and AdamW change a parameter whose gradient is zero. So without ``rows_max``, each
    parameter needs a gradient in each step of such an optimizer.

    server: the ParameterServer if this process runs the server, else None.
    version: the number of gradients that are applied in the weights of the last pull.
    learner: the ffdl.Learner. If the model is on a GPU, the learner's device is that GPU.

    Threads: one thread may use the optimizer at a time. Raises InvalidArgument, Conflict, Exhausted
    (no free slot, no memory) and Timeout. After the server has ended, calls raise Cancelled.
    The design is that of the parameter server GaDei (Zhang et al., ICDM 2017, arXiv 1611.06213).
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        name: str,
        *,
        scheduler: Any = None,
        slot: int | None = None,
        timeout_s: float = 60.0,
        learners_max: int = 16,
        overlap: bool | None = None,
        **server_options: Any,
    ) -> None:
        rule = rule_of(optimizer)
        given = isinstance(scheduler, LearningRateSchedule)
        schedule = scheduler if given else schedule_of(scheduler)
        group = optimizer.param_groups[0]
        super().__init__(group["params"], {k: v for k, v in group.items() if k != "params"})
        self._parameters: list[torch.nn.Parameter] = self.param_groups[0]["params"]
        device = gpu.device_of("put weights into a parameter server", (
            (f"parameter {i}", p) for i, p in enumerate(self._parameters)))
        self._pushes_rows = server_options.get("rows_max", 0) > 0
        synchrony = server_options.get("synchrony", Synchrony.ASYNC)
        waits = self._pushes_rows or synchrony != Synchrony.ASYNC
        if overlap and (waits or not gpu.is_gpu(device)):
            raise InvalidArgument(
                "push during the next mini-batch: 'overlap' needs a model on a GPU, "
                "Synchrony.ASYNC and no rows_max; leave 'overlap' out"
            )
        _expect_trainable(self._parameters)
        self._weights = _flatten(self._parameters)
        self._places = [p.data_ptr() for p in self._parameters]
        self._versions = [p._version for p in self._parameters]  # a pull does not change them
        self._settings = self._present_settings()
        self._role = ServerRole(name)
        # Objects made of it keep the role, not this object: no cycle keeps the learner.
        self._wait = functools.partial(self._role.wait, timeout_s=timeout_s)
        self._looked_at = 0.0

        def create() -> ParameterServer:
            server: ParameterServer = call_with(
                f"create parameter server '{name}'", ParameterServer.create,
                {"parameters": len(self._weights), "name": name, "rule": rule,
                 "schedule": schedule, "learners_max": learners_max},
                {"partitions": learners_max} | server_options)
            if server_options.get("cut") is None:
                torch.from_numpy(server.weights()).copy_(self._weights)
            server.start()
            return server

        def attach() -> Link:
            if not gpu.is_gpu(device):
                learner = Learner.attach(name, timeout_s, slot=slot)
                return HostLink(learner, self._parameters, self._weights, self._wait)
            return DeviceLink(
                Learner.attach(name, timeout_s, slot=slot, device=device.index),
                self._parameters, self._weights, self._wait,
                overlap=not waits if overlap is None else overlap)

        self._link = self._role.attach(create, attach)
        self.learner = self._link.learner
        if self.learner.parameters != len(self._weights):
            raise InvalidArgument(
                f"learn from parameter server '{name}': it has {self.learner.parameters} "
                f"parameters, and the model has {len(self._weights)}; use another server name, or "
                "the server's model"
            )
        self._is_closed = False
        self._next_sample = self.committed(self.learner.slot)
        self._batch: forecast.Ranges | None = None  # of batches(), until it is pushed: then empty
        self.version = self._pull()

    @property
    def server(self) -> ParameterServer | None:
        """The ParameterServer if this process runs the server, else None."""
        return self._role.server

    def committed(self, partition: int) -> int:
        """Returns the position of a partition's first uncommitted sample."""
        return self.learner.committed(partition)

    @torch.no_grad()
    def step(
        self,
        closure: Callable[[], Any] | None = None,
        *,
        samples: Samples | None = None,
    ) -> Any:
        """Commits the gradients together with their samples, and then pulls the weights.

        closure: a function that computes the loss and is called once, as in PyTorch.
        samples: a SampleRange or (partition, begin, end). The positions in a partition must
        increase from step to step. By default, `samples` are the samples of the last batch of
        batches(). If the loop does not use batches(), the default is the next position in the
        partition whose number is the number of this learner's slot.

        Raises InvalidArgument if there is no gradient, or if the update rule would change a
        parameter without a gradient. Also raises InvalidArgument if the loop changed
        hyperparameters, or moved or changed parameters. A gradient with NaN or Inf raises
        InvalidArgument unless ``non_finite`` allows it.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._expect_unchanged()
        if samples is None and self._batch == ():
            raise InvalidArgument(
                "step: the samples of this batch were already committed; take the next batch first"
            )
        gradients = self._present_gradients()
        sparse = SparseGradient.of(self._parameters, gradients) if self._pushes_rows else None
        ranges: Sequence[Samples] = [(self.learner.slot, self._next_sample, self._next_sample + 1)]
        if samples is not None:
            ranges = [samples]
        elif self._batch is not None:
            ranges = self._batch
        if sparse is None:
            self._note(self._link.push(gradients, ranges))
        else:
            self._note(self._link.push_rows(sparse, ranges))
        if samples is None and self._batch is not None:
            self._batch = ()
        elif samples is None:
            self._next_sample += 1
        self._link.begin_mini_batch()
        self.version = self._pull()
        return loss

    def batches(self, loader: ElasticLoader) -> Iterator[Any]:
        """Iterates over the loader's batches. Each step() commits the samples of the present batch.

        ::

            loader = ffdl.data.ElasticLoader(
                dataset, batch_samples=16, epochs=8, partition_samples=64,
                order=ffdl.SampleOrder.ON_DEMAND, learner=opt.learner)
            for images, labels in opt.batches(loader):
                opt.zero_grad()
                loss(model(images), labels).backward()
                opt.step()
            opt.close()

        The iteration ends when all epochs are done. The ledger divides the samples of each epoch
        among the learners. The gradient of each sample is applied once per epoch, even if processes
        are killed. A learner that has no samples left waits for the other learners. The server
        option ``partitions`` must be at least the number of the data set's partitions. If all
        samples of a batch are corrupt, the samples are committed with a gradient of zeros. Raises
        the errors of the loader, and Timeout.
        """
        try:
            while not loader.is_done:
                is_given = False
                for ranges, batch in loader.next_parts(parts.whole):
                    is_given = True
                    if batch is None:
                        self._link.push([None] * len(self._parameters), ranges)
                    else:
                        self._batch = ranges
                        yield batch
                    self._note(self._link.finish_push())  # the samples taken are known to be pushed
                if not is_given:
                    self._wait(loader.ledger.wait)
        finally:
            self._batch = None

    def flush(self) -> None:
        """Waits until the server has applied all pushed gradients, and pulls the weights."""
        self._link.settle()
        self._wait(self.learner.flush)
        self.version = self._pull(PullMode.SNAPSHOT)

    def close(self) -> None:
        """Calls flush(), and releases the slot.

        In the process that runs the server, close() also waits until the other learners have closed
        or died. Then close() ends the server, and copies the final weights to the model.
        If `ffdl run` started the workers, the end of the server ends the job, and a worker that
        starts later raises JobDone. Without `ffdl run`, a later learner creates a new server. If
        Ctrl-C ends the wait of close(), another call of close() continues to wait.
        """
        if not self._is_closed:
            self.flush()
            self._wait(self.learner.detach)
            self._is_closed = True
        server = self._role.server
        if server is None:
            return
        pause = threading.Event()
        while not self._role.end():
            pause.wait(KEEP_S)
        self._weights.copy_(torch.from_numpy(server.weights()))
        self.version = server.version
        self._role.server = None

    def __enter__(self) -> ParameterServerOptimizer:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()

    def state_dict(self) -> dict[str, Any]:
        """Returns the optimizer's hyperparameters and the version, but not the weights.

        To save the weights and the optimizer state, call ``server.cut()``.
        """
        return {"settings": self._settings, "version": self.version}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Compares the optimizer's hyperparameters with those in `state_dict`. Loads nothing.

        Raises InvalidArgument if the hyperparameters differ.
        """
        if state_dict.get("settings") != self._settings:
            raise InvalidArgument(
                "load the state of a parameter server's optimizer: it has "
                f"{state_dict.get('settings')}, and this optimizer {self._settings}; use the same "
                "numbers, and create the server with cut=ffdl.ParameterServerCut.load(path)"
            )

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if self.param_groups:
            raise InvalidArgument(
                "add a parameter group: a parameter server has one group of fixed size; create the "
                "optimizer with all parameters"
            )
        super().add_param_group(param_group)

    def _note(self, result: PushResult | None) -> None:
        if result == PushResult.ACCUMULATED:
            self._look()

    def _look(self) -> None:
        if time.monotonic() >= self._looked_at + KEEP_S:
            self._role.keep()
            self._looked_at = time.monotonic()

    def _pull(self, mode: PullMode = PullMode.RELAXED) -> int:
        return self._link.pull(mode)

    def _present_gradients(self) -> list[torch.Tensor | None]:
        gradients = [p.grad for p in self._parameters]
        if all(gradient is None for gradient in gradients):
            raise InvalidArgument("step: no parameter has a gradient; call backward() before")
        if self._pushes_rows or not self._changes_unused():
            return gradients
        for place, (parameter, gradient) in enumerate(zip(self._parameters, gradients)):
            if gradient is None:
                raise InvalidArgument(
                    f"step: parameter {place} of shape {tuple(parameter.shape)} has no gradient in "
                    "this step, but the server's momentum and weight decay would still change it; "
                    "pass rows_max=, at least the number of parameters and of rows in a gradient, "
                    "which leaves such parameters as they are"
                )
        return gradients

    def _changes_unused(self) -> bool:
        """True if the server's rule changes a parameter whose gradient is zero."""
        settings = self._settings
        return any(settings.get(key) for key in ("momentum", "weight_decay", "betas"))

    def _present_settings(self) -> dict[str, Any]:
        return {k: v for k, v in self.param_groups[0].items() if k != "params"}

    def _expect_unchanged(self) -> None:
        if self._is_closed:
            raise InvalidArgument("step: the optimizer was closed; make another to continue")
        if self._present_settings() != self._settings:
            raise InvalidArgument(
                "step: the optimizer's hyperparameters were changed, which the server does not "
                "see; create the optimizer with scheduler=, and do not step the scheduler"
            )
        if [p.data_ptr() for p in self._parameters] != self._places:
            raise InvalidArgument(
                "step: the model's parameters were moved or converted after the optimizer was "
                "created; move or convert the model before that"
            )
        for place, parameter in enumerate(self._parameters):
            if parameter._version != self._versions[place]:
                raise InvalidArgument(
                    f"step: parameter {place} of shape {tuple(parameter.shape)} was changed in "
                    "place by the loop or the model, which the server does not see; change "
                    "parameters only before you create the optimizer, such as in a first forward "
                    "pass"
                )
            if not parameter.requires_grad:
                raise InvalidArgument(
                    f"step: parameter {place} of shape {tuple(parameter.shape)} was frozen after "
                    "the optimizer was created, but the server's momentum and weight decay would "
                    "still change it; create an optimizer without it, under another name"
                )


def _expect_trainable(parameters: list[torch.nn.Parameter]) -> None:
    for place, parameter in enumerate(parameters):
        if not parameter.requires_grad:
            raise InvalidArgument(
                f"put weights into a parameter server: parameter {place} of shape "
                f"{tuple(parameter.shape)} requires no gradient, but the server's weight decay "
                "would change it; pass the optimizer only parameters that require gradients"
            )


def _flatten(parameters: list[torch.nn.Parameter]) -> torch.Tensor:
    """Makes the parameters views of one array, and returns the array."""
    for place, parameter in enumerate(parameters):
        if parameter.dtype != torch.float32:
            raise InvalidArgument(
                f"put weights into a parameter server: parameter {place} of shape "
                f"{tuple(parameter.shape)} is {parameter.dtype}; make it float32"
            )
    flat = torch.cat([p.detach().reshape(-1) for p in parameters])
    begin = 0
    for parameter in parameters:
        end = begin + parameter.numel()
        parameter.data = flat[begin:end].view_as(parameter)
        begin = end
    return flat
