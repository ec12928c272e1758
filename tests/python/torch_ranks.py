"""Ranks of torch.distributed for tests: processes in which torch is imported once."""

import concurrent.futures
import datetime
import itertools
import multiprocessing

import torch.distributed as dist

LONG_S = 60
_numbers = itertools.count()


def connect(backend, rank, ranks, port, name, **options):
    store = dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
    dist.init_process_group(
        backend,
        store=dist.PrefixStore(name, store),
        rank=rank,
        world_size=ranks,
        **{"timeout": datetime.timedelta(seconds=LONG_S), **options},
    )


def _run(backend, rank, ranks, port, name, options, body, arguments):
    import ffdl.torch  # noqa: F401  # also where the entry point is not installed

    connect(backend, rank, ranks, port, name, **options)
    try:
        return body(rank, *arguments)
    finally:
        dist.destroy_process_group()


class TorchProcesses:
    """Three processes, which are started once, and the store in which they meet."""

    def __init__(self):
        spawn = multiprocessing.get_context("spawn")
        # One for each rank: PyTorch remembers more of a rank than a destroyed group should leave.
        self._pools = [concurrent.futures.ProcessPoolExecutor(1, spawn) for _ in range(3)]
        self._store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.port = self._store.port

    def run(self, ranks, body, *arguments, backend="ffdl", **options):
        """body(rank, *arguments) at each of 2 or 3 ranks, in a group: what they return."""
        name = f"run{next(_numbers)}"
        started = [
            pool.submit(_run, backend, rank, ranks, self.port, name, options, body, arguments)
            for rank, pool in enumerate(self._pools[:ranks])
        ]
        return [one.result(2 * LONG_S) for one in started]

    def end(self):
        for pool in self._pools:
            pool.shutdown()
