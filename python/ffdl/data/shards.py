"""An indexed data set of shards that only support iteration."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..errors import Corrupt, InvalidArgument


class IterableShards:
    """Combines iterable shards, such as ``IterableDataset`` objects, into an indexed data set.

        files = ["a.jsonl", "b.jsonl"]
        data = ffdl.data.IterableShards([lambda f=f: open(f) for f in files])
        loader = ffdl.data.ElasticLoader(data, shuffle=ffdl.Shuffle.PARTITIONS,
                                         order=ffdl.SampleOrder.ON_DEMAND, partition_samples=1000)

    shards: a list of iterables, or of functions that return iterables. Each iteration over a shard
    must return the same samples, because a shard may be read again.
    counts: the number of samples of each shard. Without `counts`, the constructor iterates over all
    shards once and counts the samples.

    To find a sample, IterableShards iterates on from the last sample that was read. If the
    requested sample is earlier or in another shard, the iteration starts again at the beginning of
    the sample's shard. So read the samples of a shard in order: use Shuffle.NONE, or
    Shuffle.PARTITIONS with large partitions. Each loading process iterates over the shards
    independently of other processes. Raises InvalidArgument. Reading raises Corrupt if a shard has
    fewer samples than its count.
    """

    def __init__(
        self,
        shards: Sequence[Iterable[Any] | Callable[[], Iterable[Any]]],
        counts: Sequence[int] | None = None,
    ) -> None:
        self._shards = list(shards)
        if counts is None:
            counts = [sum(1 for _ in self._begin(number)) for number in range(len(self._shards))]
        if len(counts) != len(self._shards) or any(count < 0 for count in counts):
            raise InvalidArgument(
                f"combine {len(self._shards)} shards: 'counts' is {list(counts)}; pass the number "
                "of samples of each shard"
            )
        self._ends = list(itertools.accumulate(counts))
        self._open = -1  # the shard of _rest
        self._rest: Iterator[Any] = iter(())
        self._next = 0  # the next sample of it

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, number: int) -> Any:
        if not 0 <= number < len(self):
            raise IndexError(f"sample {number} of {len(self)}")
        shard = bisect.bisect_right(self._ends, number)
        begin = self._ends[shard - 1] if shard > 0 else 0
        if shard != self._open or number < self._next:
            self._open, self._next, self._rest = shard, begin, self._begin(shard)
        ahead = number - self._next
        self._next = number + 1
        for sample in itertools.islice(self._rest, ahead, None):
            return sample
        self._open = -1
        raise Corrupt(
            f"read sample {number - begin} of shard {shard}: the shard ended before this sample, "
            f"but was counted as {self._ends[shard] - begin} samples; count again, and return the "
            "same samples in each iteration"
        )

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state for pickle, without the present iteration, which cannot be pickled."""
        return self.__dict__ | {"_open": -1, "_rest": iter(()), "_next": 0}

    def _begin(self, number: int) -> Iterator[Any]:
        shard = self._shards[number]
        return iter(shard if isinstance(shard, Iterable) else shard())
