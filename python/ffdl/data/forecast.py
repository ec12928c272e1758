"""Which samples this worker will be asked for next, if nothing comes between. Pure.

What is read ahead is looked up by the ranges that the ledger gives when the time has come: a wrong
forecast costs time, and nothing else. That of SampleOrder.GLOBAL is PartitionLedger.forecast().
"""

from __future__ import annotations

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
