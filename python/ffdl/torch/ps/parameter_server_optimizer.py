"""An optimizer with weights and state in a parameter server that learners share."""

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
    """GaDei for PyTorch: ``step()`` pushes a gradient to a parameter server and pulls weights.

    ::

        opt = ffdl.torch.ParameterServerOptimizer(torch.optim.Adam(model.parameters()), "digits")
        for images, labels in loader:
            opt.zero_grad()
            loss(model(images), labels).backward()
            opt.step()
        opt.close()

    Learners are processes of one host that use the same name, by hand or under ``ffdl run``; they
    join and leave at any time. The first one creates the server, from its model's weights, and
    serves it on threads beside its own work. If that process dies another one takes the server
    over, with all pushed gradients. With Synchrony.ASYNC (the default) no learner waits for
    another.

    optimizer: defines the server's arithmetic and its numbers. It is SGD (also with momentum and
    nesterov), Adam, AdamW or Adagrad, as rule_of() maps them, with one parameter group. It is not
    stepped itself.
    scheduler: of ``torch.optim.lr_scheduler`` as schedule_of() maps it, or an
    ffdl.LearningRateSchedule. Its steps are updates of the server, of all learners together, and
    the loop does not step it. A learning rate that changes in the loop is refused.
    slot: of this learner, below learners_max. A process that replaces a killed one uses the same
    slot, and continues at ``committed(slot)``. None: any free one.
    timeout_s: the longest wait of a call, with the other synchronies, for learners that are behind.
    server_options: of ParameterServer.create(), such as synchrony, staleness, learners_max,
    clip_norm, non_finite, partitions and cut. Those of the process that creates the server count.
    With gradient_type="bfloat16" or "float16" gradients are sent as 16-bit numbers, which
    halves the bytes that leave a GPU and those that the server reads.
    overlap: for a model on a GPU: gradients and weights are transferred beside the next mini-batch.
    Its weights are then those that were requested when the last one began, and the next step()
    raises the error of a push. With batches() a gradient is sent before the next batch is taken.
    None: on with Synchrony.ASYNC and without ``rows_max``; otherwise it is not possible.

    Parameters are float32, on the CPU or all on one GPU, which the learner uses. The server folds
    on the CPU, or with ``device`` among the server_options on that GPU. Parameters become views of
    one array. Gradients of several calls of backward() add up, as usual. Sparse ones, as of
    ``Embedding(sparse=True)``, are made dense, unless ``rows_max`` is among the server_options. It
    is the number of rows and parameters that a gradient can touch, with those added to it while the
    server is late. Then rows that no sample uses are not sent, and neither weight nor state of them
    changes (as with SparseAdam, not with Adam).

    server: the ParameterServer if this process serves it, else None.
    version: the number of gradients in the weights of the last pull.
    learner: the ffdl.Learner, which has the model's GPU as its device.

    Threads: one at a time. Raises InvalidArgument, Conflict, Exhausted (no free slot, no memory),
    Timeout; Cancelled once the server has ended.
    Source: GaDei (Zhang et al., ICDM 2017, arXiv 1611.06213), its shared-memory parameter server.
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
                "push beside the next mini-batch: that needs a model on a GPU, Synchrony.ASYNC and "
                "no rows_max; leave 'overlap' out"
            )
        self._weights = _flatten(self._parameters)
        self._places = [p.data_ptr() for p in self._parameters]
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
                f"parameters, and the model {len(self._weights)}; give another name, or the same "
                "model"
            )
        self._is_closed = False
        self._next_sample = self.committed(self.learner.slot)
        self._batch: forecast.Ranges | None = None  # of batches(), until it is pushed: then empty
        self.version = self._pull()

    @property
    def server(self) -> ParameterServer | None:
        """The server if this process serves it, else None."""
        return self._role.server

    def committed(self, partition: int) -> int:
        """Returns the first sample of a partition that no learner has committed."""
        return self.learner.committed(partition)

    @torch.no_grad()
    def step(
        self,
        closure: Callable[[], Any] | None = None,
        *,
        samples: Samples | None = None,
    ) -> Any:
        """Commits the gradients together with the samples that made them; then pulls the weights.

        closure: computes the loss, once, as in PyTorch.
        samples: (partition, begin, end); positions of a partition only grow. None: those of the
        last batch of batches(), or else the next mini-batch of the partition that has the number of
        this learner's slot.

        Raises InvalidArgument (no gradient; values that were changed without the server; NaN or Inf
        unless ``non_finite`` allows them).
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._expect_unchanged()
        if samples is None and self._batch == ():
            raise InvalidArgument(
                "step: the samples of this batch were committed before; take the next batch first"
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
        """Iterates over the loader's batches, one for each step(), which commits its samples.

        ::

            loader = ffdl.data.ElasticLoader(
                dataset, batch_samples=16, epochs=8, partition_samples=64,
                order=ffdl.SampleOrder.ON_DEMAND, learner=opt.learner)
            for images, labels in opt.batches(loader):
                opt.zero_grad()
                loss(model(images), labels).backward()
                opt.step()
            opt.close()

        Ends when all epochs are done. Learners share the epochs of the data set. Each sample is in
        the weights once per epoch, whichever process is killed. A learner that has none left waits
        for the others. The server needs as many ``partitions`` as the data set has. If all samples
        of a batch are corrupt, they are committed with a gradient of zeros. Raises the errors of
        the loader, and Timeout.
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
        """Waits until all pushed gradients are in the weights, and pulls them."""
        self._link.settle()
        self._wait(self.learner.flush)
        self.version = self._pull(PullMode.SNAPSHOT)

    def close(self) -> None:
        """Calls flush(), and releases the slot.

        The process that serves waits until the other learners have closed or died, gets the final
        weights, and ends the server. Under `ffdl run` the job is done then: a worker that is
        started later gets JobDone. Otherwise a later learner creates a new server. If Ctrl-C ends
        this wait, another call continues it.
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
        """The numbers of the update rule. State and weights are the server's: ``server.cut()``."""
        return {"settings": self._settings, "version": self.version}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Checks that the numbers are the same. Raises InvalidArgument."""
        if state_dict.get("settings") != self._settings:
            raise InvalidArgument(
                "load the state of a parameter server's optimizer: it has "
                f"{state_dict.get('settings')}, and this one has {self._settings}; make it with "
                "the same numbers, and its server with cut=ffdl.ParameterServerCut.load(path)"
            )

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if self.param_groups:
            raise InvalidArgument(
                "add a parameter group: a parameter server has one, of fixed size; make the "
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
        return gradients

    def _present_settings(self) -> dict[str, Any]:
        return {k: v for k, v in self.param_groups[0].items() if k != "params"}

    def _expect_unchanged(self) -> None:
        if self._is_closed:
            raise InvalidArgument("step: the optimizer was closed; make another to continue")
        if self._present_settings() != self._settings:
            raise InvalidArgument(
                "step: the optimizer's hyperparameters were changed, and the server does not get "
                "the change; give scheduler= when you make the optimizer, and do not step it"
            )
        if [p.data_ptr() for p in self._parameters] != self._places:
            raise InvalidArgument(
                "step: the model's parameters are in other memory than when the optimizer was "
                "made; move or convert the model before"
            )


def _flatten(parameters: list[torch.nn.Parameter]) -> torch.Tensor:
    """Returns one array, of which the parameters become views."""
    for parameter in parameters:
        if parameter.dtype != torch.float32:
            raise InvalidArgument(
                f"put weights into a parameter server: a parameter is {parameter.dtype}; make it "
                "float32"
            )
    flat = torch.cat([p.detach().reshape(-1) for p in parameters])
    begin = 0
    for parameter in parameters:
        end = begin + parameter.numel()
        parameter.data = flat[begin:end].view_as(parameter)
        begin = end
    return flat
