"""Exchanges the decisions of the workers' loops: hyperparameters, used parameters, and the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ... import InvalidArgument

# Group, key, index in a sequence, and the type that the number began with: bool, int or float.
_Place = tuple[int, str, int | None, type]

# The bytes of a number are sent as integers between -128 and 127. Their mean is exact if all are
# equal, and their squares show if they are.
_MIDDLE = 128.0
# The values before the numbers: the loop has run, it asks for the end, its loss, it has a loss, a
# metric of an evaluation, it has a metric.
_HEAD = 6
_SPREAD = 0.1  # of the bytes of workers that differ, at least


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


class LoopValues:
    """Sends the hyperparameters of an optimizer's groups along with the gradients of a step.

    A step also sends which parameters have a gradient.

    Each worker with samples sends the hyperparameters that its loop has set. The hyperparameters
    must be equal on all workers with samples. The workers without samples receive the
    hyperparameters. Any worker may ask to stop the training.

    form: a meta tensor with the shape of `carried`.
    carried: the tensor that the session averages.
    asks_to_stop: True if this worker asks to stop the training.
    has_set: True if the loop may set hyperparameters, because there is no scheduler.
    used: for each parameter, True if a worker's samples used it in the last applied step.
    changes: the number of steps that changed a hyperparameter other than a learning rate.
    mean_loss: the mean loss over the samples of the last applied step, from the workers that passed
    a loss. If no worker passed a loss, mean_loss is None.
    metric: the metric that this worker sends with the next step.
    received_metric: the mean of the metrics in the last applied step. If no worker reported a
    metric, received_metric is None.
    """

    def __init__(self, optimizer: Any, has_set: bool, parameters: int) -> None:
        self._optimizer = optimizer
        self._places = list(self._find())
        self._end = _HEAD + 16 * len(self._places)  # of the numbers
        self.form = torch.empty(self._end + parameters, dtype=torch.float32, device="meta")
        self.used = [False] * parameters
        self.carried: torch.Tensor
        self.asks_to_stop = False
        self.changes = 0
        self.mean_loss: float | None = None
        self.metric: float | None = None
        self.sent_metric: float | None = None  # in this step
        self.received_metric: float | None = None
        self._has_set = has_set
        self._sent = torch.zeros(0)
        self._values: npt.NDArray[np.float64] = np.zeros(0)  # that were sent last
        self._sent_used: list[bool] = []
        self._has_sent = False  # in this step
        self._others: list[float] = []  # the last numbers that are no learning rates

    def send(
        self, votes: bool, used: list[bool], loss: torch.Tensor | float | None, share: float = 1.0
    ) -> None:
        """Writes this worker's values for a step in which it has samples.

        votes: False if the loop's body did not run, because all samples are corrupt. If `votes` is
        False, the other workers decide on the hyperparameters.
        used: for each parameter, whether it has a gradient.
        loss: the mean loss over this worker's samples. If only the fraction `share` of this
        worker's samples has a loss: the sum of the losses, divided by the number of all samples. If
        the loss is not known, `loss` is None.
        """
        if votes:
            self._send_numbers(used)
        else:
            self.carried.zero_()
        self.carried[1] = float(self.asks_to_stop)
        if loss is not None:  # one that is not finite would make the mean gradient so
            value = torch.as_tensor(loss, dtype=torch.float32, device=self.carried.device).detach()
            is_finite = value.isfinite()
            self.carried[2] = torch.where(is_finite, value, 0)
            self.carried[3] = torch.where(is_finite, share, 0.0)
        self.sent_metric = self.metric
        if self.metric is not None:
            self.carried[4] = self.metric
            self.carried[5] = 1

    def _send_numbers(self, used: list[bool]) -> None:
        values = self._present()
        is_sent = self._sent.numel() > 0 and used == self._sent_used
        if not is_sent or values.tobytes() != self._values.tobytes():
            self._values = values
            self._sent_used = list(used)
            pieces = np.frombuffer(values.tobytes(), np.uint8).astype(np.float32) - _MIDDLE
            head = [1.0] + [0.0] * (_HEAD - 1)
            self._sent = torch.from_numpy(
                np.concatenate([head, pieces, pieces * pieces, used]).astype(np.float32))
        self._has_sent = True
        self.carried.copy_(self._sent)

    def expect_sent(self) -> None:
        """Raises InvalidArgument if the loop set a hyperparameter after the values were sent."""
        if self._has_set and self._has_sent and self._present().tobytes() != self._values.tobytes():
            raise InvalidArgument(
                "end a step: the loop set a hyperparameter after the last batch of the step; set "
                "it before the first batch"
            )

    def begin_step(self) -> None:
        self._has_sent = False
        self.sent_metric = None

    def receive(self) -> bool:
        """Sets hyperparameters, mean_loss, received_metric and `used` to those of an applied step.

        Returns True if a worker asks to stop. Raises InvalidArgument if workers sent different
        hyperparameters.
        """
        mean = self.carried.cpu()
        votes, stop, loss, with_loss, metric, with_metric = mean[:_HEAD].tolist()
        self.mean_loss = loss / with_loss if with_loss > 0 else None
        self.received_metric = metric / with_metric if with_metric > 0 else None
        self.used = (mean[self._end:] > 0).tolist()
        numbers = slice(_HEAD, self._end)
        if self._has_set and self._has_sent and torch.equal(mean[numbers], self._sent[numbers]):
            self._set(self._values)
        elif self._has_set and votes > 0:  # else no loop has run
            self._take(mean[numbers].numpy().astype(np.float64) / votes)
        return stop > 0

    def _take(self, values: npt.NDArray[np.float64]) -> None:
        pieces, squares = np.split(values, 2)
        received = np.frombuffer(
            (np.rint(pieces) + _MIDDLE).astype(np.uint8).tobytes(), np.float64)
        if self._has_sent and received.tobytes() != self._values.tobytes():
            self._refuse(received)
        if np.max(squares - pieces * pieces, initial=0.0) > _SPREAD:
            self._refuse(None)
        self._set(received)

    def _refuse(self, received: npt.NDArray[np.float64] | None) -> None:
        which = "a hyperparameter"
        if received is not None:
            place = int(np.nonzero(received.view(np.uint64) != self._values.view(np.uint64))[0][0])
            group, key, _, _ = self._places[place]
            which = f"'{key}' of parameter group {group} ({self._values[place]} here)"
        raise InvalidArgument(
            f"end a step: the loops of the workers have set different values of {which}; compute "
            "the values from trainer.step_number alone"
        )

    def _find(self) -> Iterator[_Place]:
        for place, group in enumerate(self._optimizer.param_groups):
            for key, value in sorted(group.items()):
                if _is_number(value):
                    yield place, key, None, type(value)
                elif isinstance(value, (list, tuple)) and all(_is_number(one) for one in value):
                    for index, one in enumerate(value):
                        yield place, key, index, type(one)

    def _present(self) -> npt.NDArray[np.float64]:
        groups = self._optimizer.param_groups
        try:
            return np.array([
                groups[group][key] if index is None else groups[group][key][index]
                for group, key, index, _ in self._places], np.float64)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise InvalidArgument(
                "end a step: the loop removed a number from the optimizer's parameter groups, or "
                f"replaced a number by another type ({error}); set numbers only"
            ) from error

    def _set(self, values: npt.NDArray[np.float64]) -> None:
        """Sets all hyperparameters, with the same types on all workers.

        The state contains the hyperparameters as JSON text, in which 1 and 1.0 differ.
        """
        groups = self._optimizer.param_groups
        for (group, key, index, kind), number in zip(self._places, values.tolist(), strict=True):
            value = _in_type(kind, number)
            present = groups[group][key]
            one = present if index is None else present[index]
            if repr(one) == repr(value):  # -0.0 is another value than 0.0
                continue
            if index is not None:
                value = type(present)(
                    [value if at == index else other for at, other in enumerate(present)])
            groups[group][key] = value
        others = [number for (_, key, _, _), number in zip(self._places, values, strict=True)
                  if key != "lr"]
        if others != self._others:
            self._others = others
            self.changes += 1


def _in_type(kind: type, number: float) -> Any:
    """Converts the number to `kind`. If `kind` is int, a number with a fraction stays a float."""
    if kind is int:
        return int(number) if number.is_integer() else number
    return kind(number)
