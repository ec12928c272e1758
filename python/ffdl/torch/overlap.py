"""Gradients that are averaged while backward computes the rest."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import torch

from .. import InvalidArgument, Session
from .common_state import Gradients


class Overlap:
    """Tells the session how far backward has come in the gradients of a step.

    They are averaged in the order in which backward mostly makes them, the last parameter's first
    (PyTorch Distributed, VLDB 13(12), 2020, section 3.2.3), with bucket_bytes of 0 in one piece and
    not before the end of the step. gradients: what a session is given, in that order.
    """

    def __init__(
        self, parameters: list[torch.nn.Parameter], gradients: Gradients, bucket_bytes: int
    ) -> None:
        self._all = gradients
        self._parameters = parameters[::-1] if bucket_bytes > 0 else []
        self._views = gradients.views[::-1] if bucket_bytes > 0 else []
        self.gradients = self._views or gradients.flat
        self._session: Session | None = None  # None: nothing is begun now
        self._samples = 0
        self._failed = False
        self._forget()
        for place, parameter in enumerate(self._parameters):
            parameter.register_post_accumulate_grad_hook(functools.partial(self._note, place))

    def begin_step(self, session: Session, samples: int) -> None:
        """What backward makes from now on is of this step, and the mean over so many samples."""
        self._session = session
        self._samples = samples

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        session, self._session = self._session, None
        try:
            yield
        finally:
            self._session = session

    def end_step(self) -> None:
        """Expects the gradients as backward made them."""
        self._session = None
        self._all.expect_unmoved()
        if self._failed:
            self._refuse_second()
        for parameter, view, version in zip(
            self._parameters, self._views, self._versions, strict=True
        ):
            if version is not None and (parameter.grad is not view or view._version != version):
                raise InvalidArgument(
                    "end a step: a gradient was changed after backward(), while it is averaged; "
                    "let elastic() clip, by clip_norm=, or give it bucket_bytes=0"
                )
        self._forget()

    def _forget(self) -> None:
        self._end = 0  # the first so many gradients are ready
        self._versions: list[int | None] = [None] * len(self._parameters)  # None: not ready

    def _note(self, place: int, parameter: torch.nn.Parameter) -> None:
        if self._session is None:
            return
        if self._versions[place] is not None:
            self._refuse_second()
        view = self._views[place]
        self._all.collect_one(parameter, view)
        self._versions[place] = view._version
        if place > self._end:
            return
        while self._end < len(self._versions) and self._versions[self._end] is not None:
            self._end += 1
        self._session.begin_average(self._end, self._samples)

    def _refuse_second(self) -> None:
        self._failed = True
        raise InvalidArgument(
            "run backward: it came to a parameter for the second time in a step, whose gradient is "
            "averaged already; run all but the last within trainer.no_sync(), or give elastic() "
            "bucket_bytes=0"
        )
