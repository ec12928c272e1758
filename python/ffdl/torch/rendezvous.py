"""How the ranks of a group find each other: docs/decisions/0013-pytorch.md says why so."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import secrets
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

import ffdl

_LOOK_S = 0.002  # between two looks at c10d's store: its own waits do not end on Ctrl-C


@dataclass(frozen=True)
class ProcessGroupOptions:
    """For ``init_process_group("ffdl", pg_options=...)``; alike on all ranks but for the address.

    address: the IP address of this host at which ranks on others reach it; what comes in there is
    trusted. "": the one on the way to MASTER_ADDR.
    backend, slot_bytes: as ffdl.connect_communicator() takes them.
    """

    address: str = ""
    backend: ffdl.Backend = ffdl.Backend.AUTO
    slot_bytes: int = 128 << 10


class Rendezvous:
    """Connects one world through c10d's store.

    Threads: connect() once, on any; abort() from any.
    """

    def __init__(self, store: dist.Store, options: ProcessGroupOptions) -> None:
        self._store = store
        self._options = options
        self._aborted = threading.Event()

    def connect(self, rank: int, members: Sequence[str], timeout_s: float) -> ffdl.Communicator:
        """Returns when all members have come.

        Rank 0 waits for all, and serves an ffdl store for the moment in which they connect.
        Raises Timeout (names who has not come), Cancelled (aborted), and what
        ffdl.connect_communicator() does.
        """
        deadline = time.monotonic() + timeout_s
        address = self._options.address or _address_towards(self._store)
        if rank != 0:
            self._store.set(f"here/{rank}", "")
            told = json.loads(self._await("meeting", members[0], deadline))
            return self._meet(rank, members, told, address, deadline)
        for other in range(1, len(members)):
            self._await(f"here/{other}", members[other], deadline)
        with _serve_store(address) as told:
            self._store.set("meeting", json.dumps(told))
            communicator = self._meet(rank, members, told, address, deadline)
        # Nobody shall find them who comes after this group was destroyed.
        for key in ["meeting", *(f"here/{other}" for other in range(1, len(members)))]:
            self._store.delete_key(key)
        return communicator

    def abort(self) -> None:
        """Ends a wait of connect()."""
        self._aborted.set()

    def _await(self, key: str, whom: str, deadline: float) -> bytes:
        while not self._store.check([key]):
            if time.monotonic() > deadline:
                raise ffdl.Timeout(
                    f"connect back end 'ffdl': '{whom}' has not come; start all ranks, or give "
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
                slot_bytes=self._options.slot_bytes,
            )
            # After this nobody needs the store.
            communicator.barrier(max(0.0, deadline - time.monotonic()))
            return communicator
        finally:
            del store  # also where somebody keeps the exception


@contextlib.contextmanager
def _serve_store(address: str) -> Iterator[dict[str, Any]]:
    """Serves an empty store; what the others must know of it, and of the world to be connected."""
    secret = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="ffdl-") as folder:
        server = ffdl.StoreServer.start(
            folder=folder, address=f"{address or '127.0.0.1'}:0", secret=secret
        )
        try:
            yield {"url": server.url(), "secret": secret, "generation": 1 + secrets.randbits(62)}
        finally:
            del server  # before its folder


def _address_towards(store: dist.Store) -> str:
    """This host's IP address on the way to the host of a TCPStore.

    "" where that is this host by a loopback name, and for stores of one host.
    """
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    if not isinstance(store, dist.TCPStore):
        return ""
    try:
        (_, _, _, _, place), *_ = socket.getaddrinfo(
            store.host, store.port, socket.AF_INET, socket.SOCK_DGRAM
        )
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(place)  # sends nothing
            own = probe.getsockname()[0]
    except OSError:
        return ""
    return "" if ipaddress.ip_address(own).is_loopback else own
