"""Averages gradients while backward computes the other gradients."""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from collections.abc import Iterator

import torch
from torch.utils.hooks import RemovableHandle

from ... import InvalidArgument, Session
from .. import device as gpu
from .common_state import Averaged, Gradients


def is_worth_it(workers: int, of_this_host: int, processors: int, threads: int) -> bool:
    """Returns True if averaging can use resources that the threads of backward do not use.

    The resources are the network between hosts, and a processor that no worker's thread uses.
    threads: the number of compute threads of each worker.
    """
    return workers > of_this_host or (workers > 1 and processors > workers * threads)


def _is_worth_it_here(session: Session, device: torch.device) -> bool:
    """Returns is_worth_it() for the present world.

    If the model is on a GPU, returns True for two or more workers. If the job was started on one
    host, all its workers are counted as workers of this host.
    """
    workers = session.world.size
    if gpu.is_gpu(device):  # its copies and sums run beside the processors
        return workers > 1
    at_start = os.environ.get("WORLD_SIZE")
    of_this_host = os.environ.get("LOCAL_WORLD_SIZE", at_start)
    return is_worth_it(
        workers,
        workers if of_this_host == at_start else min(workers, int(of_this_host)),
        len(os.sched_getaffinity(0)),
        torch.get_num_threads(),
    )


def _note(overlap: weakref.ref[Overlap], place: int, parameter: torch.nn.Parameter) -> None:
    if (one := overlap()) is not None:
        one.note(place, parameter)


def _remove(hooks: list[RemovableHandle]) -> None:
    for hook in hooks:
        hook.remove()


class Overlap:
    """Reports to the session the number of gradients that backward has computed in a step.

    Gradients are averaged from the last parameter to the first, because backward usually computes
    them in this order (PyTorch Distributed, PVLDB 13(12), 2020, section 3.2.3). If `wanted` is
    None, averaging starts during backward only in worlds where is_worth_it() is True. Gradients are
    checked for later changes in all worlds. If `wanted` is False or `bucket_bytes` is 0, Overlap
    does nothing.
    """

    def __init__(
        self,
        parameters: list[torch.nn.Parameter],
        gradients: Gradients,
        averaged: Averaged,
        bucket_bytes: int,
        wanted: bool | None,
        device: torch.device,
    ) -> None:
        self._all = gradients
        self._averaged = averaged
        self._wanted = wanted
        self._device = device
        is_watched = bucket_bytes > 0 and wanted is not False
        self._parameters = parameters[::-1] if is_watched else []
        self._views = gradients.views[::-1] if is_watched else []
        self._is_worth_it = wanted
        self._is_step = False  # backward computes a part of this worker's step
        self._session: Session | None = None  # None: no averaging is started now
        self._samples = 0
        self._failed = False
        self._forget()
        # A parameter's hooks are invisible to Python's garbage collector. A hook that refers to
        # this object would keep it, the parameters and the session's arrays until the process ends.
        note = functools.partial(_note, weakref.ref(self))
        hooks = [
            parameter.register_post_accumulate_grad_hook(functools.partial(note, place))
            for place, parameter in enumerate(self._parameters)
        ]
        weakref.finalize(self, _remove, hooks)

    def begin_step(self, session: Session, samples: int) -> None:
        """Begins a step or a batch: the next backward belongs to this step.

        samples: the number of samples over which the batch's loss is a mean.
        """
        self._is_step = True
        self._samples = samples
        if self._is_worth_it is None:
            self._is_worth_it = _is_worth_it_here(session, self._device)
        self._session = session if self._is_worth_it else None

    def change_world(self) -> None:
        """Lets the first step in the new world check again whether overlap is worth its cost."""
        self._is_worth_it = self._wanted

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        was_step, self._is_step = self._is_step, False
        try:
            yield
        finally:
            self._is_step = was_step

    def end_step(self) -> None:
        """Raises InvalidArgument if a gradient was changed after backward computed it."""
        self._is_step = False
        if self._failed:
            self._refuse_second()
        for parameter, view, version in zip(
            self._parameters, self._views, self._versions, strict=True
        ):
            if version is not None and (parameter.grad is not view or view._version != version):
                raise InvalidArgument(
                    "end a step: a gradient was changed after backward(), while it is averaged; "
                    "clip with clip_norm= of elastic(), or pass overlap=False to elastic()"
                )
        self._session = None
        self._forget()

    def _forget(self) -> None:
        self._end = 0  # number of leading gradients that are ready
        self._begun = 0  # number of their arrays that were reported to the session
        self._versions: list[int | None] = [None] * len(self._parameters)  # None: not ready

    def note(self, place: int, parameter: torch.nn.Parameter) -> None:
        """Notes that backward has computed the gradient of one parameter."""
        if not self._is_step:
            return
        if self._versions[place] is not None:
            self._refuse_second()
        view = self._views[place]
        self._all.collect_one(parameter, view)
        self._versions[place] = view._version
        if self._session is None:
            return
        # Called for each: backward runs on the stream that the parameter was used on, which may
        # differ.
        gpu.wait_for_current_stream(self._device)
        if place > self._end:
            return
        while self._end < len(self._versions) and self._versions[self._end] is not None:
            self._end += 1
        whole = self._averaged.whole_arrays(self._end)
        if whole > self._begun:
            self._begun = whole
            self._session.begin_average(whole, self._samples)

    def _refuse_second(self) -> None:
        self._failed = True
        raise InvalidArgument(
            "run backward: a parameter got a second gradient in a step, and the first may be "
            "averaged by now; run all passes except the last within trainer.no_sync(), or pass "
            "overlap=False to elastic()"
        )
