"""Creates the server in the first learner's process.

If the process that runs the server dies, another learner's process takes over the server.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TypeVar

from ... import (
    Conflict,
    NotFound,
    ParameterServer,
    ParameterServerView,
    Store,
    Timeout,
    ended_servers,
    job_environment,
    open_store,
    record_server_end,
    remove_segment,
)
from ...errors import JobDone
from .creation_lock import creation_lock

T = TypeVar("T")

KEEP_S = 0.1  # interval of checks that the server lives, for a learner that waits
_LOOK_S = 5.0  # for a segment that exists: opening it waits for no other process


class _Job:
    """The job of `ffdl run` that this worker belongs to. The job's store records ended servers."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name

    @classmethod
    def of_this_process(cls) -> _Job | None:
        told = job_environment()
        if told is None:
            return None
        return cls(open_store(told.store_url, secret=told.store_secret), told.job)

    def expect_under_way(self, server: str) -> None:
        if server in ended_servers(self._store, self._name):
            raise JobDone(
                f"learn from parameter server '{server}': in job '{self._name}' its training is "
                "complete; run `ffdl run --again` to train it again"
            )

    def record_end(self, server: str, version: int) -> None:
        record_server_end(self._store, self._name, server, version)


class ServerRole:
    """A parameter server with a name. One of the learners' processes on this host runs the server.

    Threads: one thread at a time may use a ServerRole. The server runs on separate threads.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.server: ParameterServer | None = None
        self._look: ParameterServerView | None = None
        self._job = _Job.of_this_process()

    def attach(self, create: Callable[[], ParameterServer], learner: Callable[[], T]) -> T:
        """Attaches a learner. If the server does not exist, creates the server first.

        create: creates the server, writes the first weights and starts the server.
        learner: attaches a learner and returns it.

        Raises JobDone if the server's training has already ended in this job, and InvalidArgument
        if the name is not a valid name of a server.
        """
        with creation_lock(self._name):
            if self._job is not None:
                self._job.expect_under_way(self._name)
            self._remove_unborn()
            try:
                self.server = create()
            except Conflict:
                self._adopt()
            return learner()

    def end(self) -> bool:
        """Stops the server if this process holds the server, and no learner is attached.

        Returns True if the server was stopped.
        """
        with creation_lock(self._name):
            if self.server is None or any(one.attached for one in self.server.stats().learners):
                return False
            if self._job is not None:
                self._job.record_end(self._name, self.server.version)
            self.server.stop()
        return True

    def wait(self, call: Callable[[float], T], timeout_s: float) -> T:
        """Repeats a call with short time-outs until the call succeeds, or timeout_s has passed.

        Use wait() for calls that wait for other processes. If the server dies during the wait, this
        process takes over the server. Raises Timeout.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return call(min(KEEP_S, max(0.0, deadline - time.monotonic())))
            except Timeout:
                self.keep()
                if time.monotonic() >= deadline:
                    raise

    def keep(self) -> bool:
        """Takes over the server if its process is dead. Returns True after a takeover."""
        if self.server is not None or self._view().stats().server_alive:
            return False
        with creation_lock(self._name):
            return self._adopt()

    def _view(self) -> ParameterServerView:
        if self._look is None:
            self._look = ParameterServerView.open(self._name, timeout_s=_LOOK_S)
        return self._look

    def _adopt(self) -> bool:
        try:
            server = ParameterServer.adopt(self._name)
        except (Conflict, NotFound):
            return False  # it lives; or it has ended, as the learner's next call will report
        server.start()
        self.server = server
        return True

    def _remove_unborn(self) -> None:
        """Removes a server that was killed before it had weights. No learner has used it."""
        try:
            view = ParameterServerView.open(self._name, timeout_s=0)
        except Timeout:
            return  # there is none
        stats = view.stats()
        del view
        if not stats.server_alive and stats.version == 0 and not stats.learners:
            with contextlib.suppress(Conflict, NotFound):
                remove_segment(self._name)
