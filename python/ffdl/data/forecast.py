"""Computes this worker's samples in the next steps if world and batch size stay the same.

If the ledger later returns other ranges, the loader discards the batches that it has read ahead. So
a wrong forecast costs only time. This module is for SampleOrder.ON_DEMAND. For SampleOrder.GLOBAL,
use SampleLedger.forecast().
"""

from __future__ import annotations

Range = tuple[int, int, int]  # partition, begin, end, as ffdl.SampleRange
Ranges = tuple[Range, ...]


def of_leases(leases: Ranges, count: int, steps: int) -> list[Ranges]:
    """Returns the ranges of the next `steps` steps, if each step uses `count` leased samples."""
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
