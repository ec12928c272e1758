"""Reads the order of samples from a sampler that the user passes."""

from __future__ import annotations

import itertools
import random
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidArgument
from .generators import seed_generators

_HINT = (
    "return the same order at each worker: draw random numbers from the default generator of "
    "PyTorch, NumPy or random, seeded for each epoch, or from the number passed to set_epoch()"
)


class SampledOrder:
    """Maps the positions of an epoch to the sample numbers that a sampler returns.

    For each epoch, each process iterates over its own copy of the sampler. Before each iteration,
    SampledOrder seeds the random generators from `seed` and the epoch's number. So the sampler
    returns the same order in all processes, also after a restart.
    """

    def __init__(self, sampler: Iterable[Any], seed: int, dataset_samples: int,
                 batch_samples: int | None = None) -> None:
        """batch_samples: the length of the sampler's lists, or None if it yields numbers."""
        self._sampler = sampler
        self._name = type(sampler).__name__
        self._seed = seed
        self._dataset_samples = dataset_samples
        self._batch_samples = batch_samples
        if any(hasattr(one, "num_replicas") for one in _nested(sampler)):
            raise InvalidArgument(
                f"take the order of '{self._name}': it returns one worker's share of an epoch; "
                "pass a sampler of all samples, because the loader divides them among the workers"
            )
        first = self._ask(0)
        if not np.array_equal(first, self._ask(0)):
            raise InvalidArgument(
                f"take the order of '{self._name}': it returned two orders for epoch 0; {_HINT}"
            )
        self._known = {0: first}

    @property
    def samples(self) -> int:
        """The number of samples in an epoch."""
        return len(self._known[min(self._known)])

    @property
    def checksum(self) -> int:
        """The checksum of the first epoch's order, which must be equal on all workers."""
        return zlib.crc32(self._of(0).tobytes())

    def numbers(self, places: npt.NDArray[np.int64], epoch: int) -> npt.NDArray[np.int64]:
        """Returns the sample numbers at the positions `places` of the epoch."""
        return self._of(epoch)[places]

    def _of(self, epoch: int) -> npt.NDArray[np.int64]:
        if epoch not in self._known:
            order = self._ask(epoch)
            if len(order) != self.samples:
                raise InvalidArgument(
                    f"take the order of '{self._name}': epoch {epoch} has {len(order)} samples, "
                    f"an earlier epoch {self.samples}; return equally many in each epoch"
                )
            while len(self._known) > 1:  # samples are read ahead into the next epoch
                del self._known[min(self._known)]
            self._known[epoch] = order
        return self._known[epoch]

    def _ask(self, epoch: int) -> npt.NDArray[np.int64]:
        with _kept_generators():
            seed = zlib.crc32(f"{self._seed} order {epoch}".encode())
            seed_generators(seed)
            for sampler in _nested(self._sampler):
                if hasattr(sampler, "set_epoch"):
                    sampler.set_epoch(epoch)
                generator = getattr(sampler, "generator", None)
                if hasattr(generator, "manual_seed"):
                    generator.manual_seed(seed)
            given = iter(self._sampler)
            order = np.fromiter(
                given if self._batch_samples is None else self._samples_of(given), np.int64)
        if len(order) == 0 or order.min() < 0 or order.max() >= self._dataset_samples:
            seen = f"numbers from {order.min()} to {order.max()}" if len(order) else "no samples"
            raise InvalidArgument(
                f"take the order of '{self._name}': it returned {seen}; return numbers of the "
                f"{self._dataset_samples} samples of the data set"
            )
        return order

    def _samples_of(self, batches: Iterator[Any]) -> Iterator[int]:
        for batch, is_last in _with_end(batches):
            numbers = list(batch)
            size = len(numbers)
            if size > self._batch_samples or (size < self._batch_samples and not is_last):
                raise InvalidArgument(
                    f"take the batches of '{self._name}': a batch has {size} samples, and "
                    f"batch_samples is {self._batch_samples}; make all batches except the last "
                    "this large (drop_last=True), because a batch is a step of all workers"
                )
            yield from numbers


def _with_end(items: Iterator[Any]) -> Iterator[tuple[Any, bool]]:
    ahead = list(itertools.islice(items, 1))
    while ahead:
        item = ahead.pop()
        ahead.extend(itertools.islice(items, 1))
        yield item, not ahead


def _nested(sampler: Any) -> Iterator[Any]:
    """Yields a sampler and the samplers inside it, such as the sampler of a BatchSampler."""
    for _ in range(8):
        if sampler is None:
            return
        yield sampler
        sampler = getattr(sampler, "sampler", None)


@contextmanager
def _kept_generators() -> Iterator[None]:
    torch = sys.modules.get("torch")
    states = random.getstate(), np.random.get_state()
    of_torch = None if torch is None else torch.default_generator.get_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        if torch is not None:
            torch.default_generator.set_state(of_torch)
