"""The number of samples, the micro-batches and the learning rate of a step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import torch

from ... import (
    BatchRule,
    GradientNoise,
    InvalidArgument,
    NoiseScale,
    SampleLedger,
    SampleOrder,
    StepBatch,
    StepParticipant,
    World,
    step_batch,
)
from ...data import parts


class StepPlan:
    """The plan of a worker's steps in the present world.

    world: the present world, which the trainer sets after each change of the world. All members
    apply a step with the same world and the same noise scale, so all compute the same learning
    rate.
    """

    def __init__(
        self,
        rule: BatchRule | None,
        micro_batch_samples: int | None,
        measures_noise: bool,
    ) -> None:
        if rule is not None and micro_batch_samples is not None:
            raise InvalidArgument(
                "plan the steps: micro_batch_samples and batch_rule are both set, but "
                "micro_batch_samples needs a fixed batch size; leave one of them out"
            )
        self.rule = rule
        self.measures_noise = measures_noise
        self.noise: GradientNoise | None = None  # if it is measured, once the gradients exist
        self.world: World | None = None
        self.has_micro_batches = micro_batch_samples is not None
        self.cut: parts.Cut = parts.whole
        if micro_batch_samples is not None:
            self.cut = parts.every(micro_batch_samples)
        elif rule is not None and rule.micro_batch_max > 0:
            self.cut = parts.at_most(rule.micro_batch_max)

    def expect(self, ledger: SampleLedger) -> None:
        """Checks that the ledger supports the requested batch rule and micro-batches."""
        is_global = ledger.order == SampleOrder.GLOBAL
        if self.has_micro_batches and not is_global:
            raise InvalidArgument(
                "train in micro-batches: the ledger has SampleOrder.ON_DEMAND; use "
                "SampleOrder.GLOBAL, with the same micro_batch_samples"
            )
        if self.rule is not None and self.rule.workers > 0 and is_global:
            raise InvalidArgument(
                f"scale the batch (BatchRule.workers is {self.rule.workers}): the ledger has a "
                "fixed batch size; use SampleOrder.ON_DEMAND, or a rule without workers"
            )

    def samples(self, ledger: SampleLedger) -> int | None:
        """Returns how many samples this worker takes in a step, or None for the ledger's number."""
        if self.rule is None or ledger.order == SampleOrder.GLOBAL:
            return None
        return self._batch().share

    def bucket_bytes(
        self, given: int, overlap: bool | None, participants: Sequence[StepParticipant]
    ) -> int:
        """Returns the bucket size in bytes. 0: no buckets, so averaging starts after backward."""
        reader = None
        if self.measures_noise or any(isinstance(one, GradientNoise) for one in participants):
            reader = "the noise of gradients is measured"
        elif self.cut is not parts.whole:
            reader = "a step has several micro-batches"
        if reader is None:
            return given
        if overlap:
            raise InvalidArgument(
                f"average gradients during backward: not possible, because {reader}; leave "
                "'overlap' out"
            )
        return 0

    @property
    def progress(self) -> float:
        """The number of steps by which this step advances a scheduler."""
        return 1.0 if self.rule is None else self._batch().progress

    @contextlib.contextmanager
    def learning_rate(self, optimizer: torch.optim.Optimizer) -> Iterator[None]:
        """Returns a context that sets this step's learning rate, and then restores the old one."""
        if self.rule is None:
            yield
            return
        factor = self._batch().learning_rate_factor
        rates = [group["lr"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["lr"] *= factor
        try:
            yield
        finally:
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate

    def noise_scale(self) -> NoiseScale:
        return NoiseScale() if self.noise is None else self.noise.noise_scale

    def _batch(self) -> StepBatch:
        assert self.rule is not None and self.world is not None
        return step_batch(self.rule, self.world.rank, self.world.size, self.noise_scale())
