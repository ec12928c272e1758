"""The rendezvous of a process group's ranks (docs/decisions/0013-pytorch.md)."""

from __future__ import annotations

import contextlib
import json
import secrets
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

import ffdl

_LOOK_S = 0.002  # between two polls of c10d's store: its own waits do not end on Ctrl-C


@dataclass(frozen=True)
class ProcessGroupOptions:
    """Options for ``init_process_group("ffdl", pg_options=...)``.

    All options except `address` must be equal on all ranks.

    address: the IP address to which ranks on other hosts connect. A connection to this address is
    accepted only after the peer has proved that it is a rank. By default, the environment variable
    FFDL_INTERFACE selects the address. Without FFDL_INTERFACE, the default is the address from
    which this host connects to MASTER_ADDR.
    backend, tls, slot_bytes: the options of ffdl.connect_communicator().
    """

    address: str = ""
    backend: ffdl.Backend = ffdl.Backend.AUTO
    tls: bool = False
    slot_bytes: int = 128 << 10


class Rendezvous:
    """Connects the ranks of one world through c10d's store.

    Threads: connect() on one thread at a time; abort() from any thread.
    """

    def __init__(self, store: dist.Store, options: ProcessGroupOptions) -> None:
        self._store = store
        self._options = options
        self._aborted = threading.Event()

    def connect(self, rank: int, members: Sequence[str], timeout_s: float) -> ffdl.Communicator:
        """Waits until all members have joined, and returns the communicator.

        Rank 0 serves an ffdl store while the members connect, because c10d's store lacks leases.
        Raises Timeout (the message names a missing member), Cancelled (aborted), and the errors of
        ffdl.connect_communicator().
        """
        deadline = time.monotonic() + timeout_s
        address = self._options.address or _own_address(self._store)
        self._store.set(f"here/{rank}", "")
        if rank != 0:
            told = json.loads(self._await("meeting", members[0], deadline))
            return self._meet(rank, members, told, address, deadline)
        try:
            for other in range(1, len(members)):
                self._await(f"here/{other}", members[other], deadline)
            with _serve_store(address) as told:
                self._store.set("meeting", json.dumps(told))
                communicator = self._meet(rank, members, told, address, deadline)
        finally:
            self._store.delete_key("here/0")
        # A process that starts after this group was destroyed must not find these keys.
        for key in ["meeting", *(f"here/{other}" for other in range(1, len(members)))]:
            self._store.delete_key(key)
        return communicator

    def abort(self) -> None:
        """Ends a connect() of this object that waits for other ranks."""
        self._aborted.set()

    def _await(self, key: str, name: str, deadline: float) -> bytes:
        while not self._store.check([key]):
            if time.monotonic() > deadline:
                raise ffdl.Timeout(
                    f"connect back end 'ffdl': '{name}' has not arrived; start all ranks, or give "
                    "a longer timeout"
                )
            if self._aborted.wait(_LOOK_S):
                raise ffdl.Cancelled("connect back end 'ffdl': the group was aborted")
        return self._store.get(key)

    def _meet(
        self,
        rank: int,
        members: Sequence[str],
        told: dict[str, Any],
        address: str,
        deadline: float,
    ) -> ffdl.Communicator:
        store = ffdl.open_store(told["url"], secret=told["secret"])
        try:
            communicator = ffdl.connect_communicator(
                ffdl.World(told["generation"], rank, list(members)),
                store,
                max(0.0, deadline - time.monotonic()),
                backend=self._options.backend,
                address=address,
                tls=self._options.tls,
                slot_bytes=self._options.slot_bytes,
            )
            # After this no rank needs the store.
            communicator.barrier(max(0.0, deadline - time.monotonic()))
            return communicator
        finally:
            del store  # also while another frame keeps the exception


def has_come(store: dist.Store) -> bool:
    """Returns True while rank 0 runs connect(). All ranks of a group use the same `store`."""
    return store.check(["here/0"])


@contextlib.contextmanager
def _serve_store(address: str) -> Iterator[dict[str, Any]]:
    """Serves an empty ffdl store. Yields its URL, its secret, and a random first generation."""
    secret = secrets.token_hex(16)
    host = f"[{address}]" if ":" in address else address or "127.0.0.1"
    with tempfile.TemporaryDirectory(prefix="ffdl-") as folder:
        server = ffdl.StoreServer.start(folder=folder, address=f"{host}:0", secret=secret)
        try:
            yield {"url": server.url(), "secret": secret, "generation": 1 + secrets.randbits(62)}
        finally:
            del server  # before its folder


def _own_address(store: dist.Store) -> str:
    """Returns the address at which ranks on other hosts reach this rank.

    Returns "" if `store` is not a TCPStore, or is a TCPStore at a loopback address.
    """
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    return ffdl.own_address(store.host, store.port) if isinstance(store, dist.TCPStore) else ""
