"""Forecasts the samples of this worker's next steps, for the case that nothing changes. Pure.

Batches that were read ahead are looked up by the ranges from the ledger. So a wrong forecast costs
only time. SampleLedger.forecast() is the forecast for SampleOrder.GLOBAL.
"""

from __future__ import annotations

Range = tuple[int, int, int]  # partition, begin, end, as ffdl.SampleRange
Ranges = tuple[Range, ...]


def of_leases(leases: Ranges, count: int, steps: int) -> list[Ranges]:
    """Forecasts SampleOrder.ON_DEMAND: each later step takes `count` samples from the front."""
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
