"""Functions that cut the samples of a step into parts, for next_parts() and all_parts()."""

from __future__ import annotations

from collections.abc import Callable

from .._ffdl import even_shares
from .forecast import Range, Ranges

Cut = Callable[[Ranges], list[Ranges]]


def count(ranges: Ranges) -> int:
    return sum(end - begin for _, begin, end in ranges)


def whole(ranges: Ranges) -> list[Ranges]:
    """Returns all ranges of a step as one part, or no part if there are no ranges."""
    return [ranges] if ranges else []


def of_one_range(ranges: Ranges) -> list[Ranges]:
    """Returns each range of a step as a part, for pushes that commit one range at a time."""
    return [(one,) for one in ranges]


def every(samples: int) -> Cut:
    """Returns a function that cuts the ranges of a step into parts of `samples` samples.

    The last part may be smaller.
    """

    def cut(ranges: Ranges) -> list[Ranges]:
        total = count(ranges)
        return _in(ranges, [min(samples, total - begin) for begin in range(0, total, samples)])

    return cut


def at_most(samples: int) -> Cut:
    """Returns a function that cuts a step into the fewest parts of at most `samples` samples.

    The parts have nearly equal sizes.
    """

    def cut(ranges: Ranges) -> list[Ranges]:
        total = count(ranges)
        return _in(ranges, even_shares(total, -(-total // samples)) if total else [])

    return cut


def _in(ranges: Ranges, sizes: list[int]) -> list[Ranges]:
    parts: list[Ranges] = []
    rest = list(reversed(ranges))
    for size in sizes:
        part: list[Range] = []
        while size > 0:
            partition, begin, end = rest.pop()
            here = min(size, end - begin)
            part.append((partition, begin, begin + here))
            size -= here
            if begin + here < end:
                rest.append((partition, begin + here, end))
        parts.append(tuple(part))
    return parts
