"""Which samples this worker will be asked for next, if nothing comes between. Pure.

What is read ahead is looked up by the ranges that the ledger gives when the time has come: a wrong
forecast costs time, and nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

Range = tuple[int, int, int]  # partition, begin, end, as ffdl.SampleRange
Ranges = tuple[Range, ...]


def of_leases(leases: Ranges, count: int, steps: int) -> list[Ranges]:
    """SampleOrder.ON_DEMAND: the steps after this one take `count` each from the front."""
    ahead: list[Ranges] = []
    taken: list[Range] = []
    missing = count
    for partition, begin, end in leases:
        while begin < end and len(ahead) <= steps:
            here = min(missing, end - begin)
            taken.append((partition, begin, begin + here))
            begin += here
            missing -= here
            if missing == 0:
                ahead.append(tuple(taken))
                taken, missing = [], count
    return ahead[1 : steps + 1]


class Share(NamedTuple):
    """Which part of each step's batch is this worker's."""

    offset: int
    samples: int


class Step(NamedTuple):
    """A step of SampleOrder.GLOBAL over a data set of one partition."""

    begin: int  # its first position, over all workers
    batch: int  # samples of a step
    samples: int  # of the data set

    @property
    def end_of_epoch(self) -> int:
        return (self.begin // self.samples + 1) * self.samples

    def share(self, lease: Range) -> Share | None:
        """Of the worker that has this lease; None where the end of the epoch may have cut it."""
        if self.begin + self.batch > self.end_of_epoch:
            return None
        return Share(lease[1] - self.begin, lease[2] - lease[1])

    def next(self) -> Step:
        return self._replace(begin=min(self.begin + self.batch, self.end_of_epoch))


def of_global_order(step: Step, share: Share, steps: int) -> list[Ranges]:
    """The steps after this one, as long as the workers are the same."""
    ahead: list[Ranges] = []
    for _ in range(steps):
        step = step.next()
        begin = step.begin + share.offset
        end = min(begin + share.samples, step.end_of_epoch)
        if begin < end:
            ahead.append(((0, begin, end),))
    return ahead
