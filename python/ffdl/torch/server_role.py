"""Who serves: the first learner makes the parameter server, and another takes it over."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from .. import (
    Conflict,
    NotFound,
    ParameterServer,
    ParameterServerView,
    Timeout,
    remove_segment,
)

T = TypeVar("T")

KEEP_S = 0.1  # how often one that waits, or whose gradients wait, looks whether the server lives
_LOOK_S = 5.0  # the segment is there: opening it waits for nobody


class ServerRole:
    """A server by name on this host, which this process holds or another one does.

    Threads: one at a time; the server has threads of its own.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.server: ParameterServer | None = None
        self._look: ParameterServerView | None = None

    def attach(self, create: Callable[[], ParameterServer], learner: Callable[[], T]) -> T:
        """create: makes the server, writes its first weights and starts it; where there is none.

        learner: attaches one to it, and is what this returns.
        """
        with self._alone():
            self._remove_unborn()
            try:
                self.server = create()
            except Conflict:
                self._adopt()
            return learner()

    def end(self) -> bool:
        """Stops the server that this process holds, unless somebody learns from it."""
        with self._alone():
            if self.server is None or any(one.attached for one in self.server.stats().learners):
                return False
            self.server.stop()
        return True

    def wait(self, call: Callable[[float], T], timeout_s: float) -> T:
        """Calls it with short time-outs until it has ended, or Timeout is raised.

        What it waits for is others; takes over from a server that dies meanwhile.
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
        """Whether the server was dead: then this process has taken it over."""
        if self.server is not None or self._view().stats().server_alive:
            return False
        with self._alone():
            return self._adopt()

    def _view(self) -> ParameterServerView:
        if self._look is None:
            self._look = ParameterServerView.open(self._name, timeout_s=_LOOK_S)
        return self._look

    def _adopt(self) -> bool:
        try:
            server = ParameterServer.adopt(self._name)
        except (Conflict, NotFound):
            return False  # it lives; or it has ended, as the learner's next call will say
        server.start()
        self.server = server
        return True

    def _remove_unborn(self) -> None:
        """Of one that was killed before it had its first weights: nobody can have used it."""
        try:
            view = ParameterServerView.open(self._name, timeout_s=0)
        except Timeout:
            return  # there is none
        stats = view.stats()
        del view
        if not stats.server_alive and stats.version == 0 and not stats.learners:
            with contextlib.suppress(Conflict, NotFound):
                remove_segment(self._name)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Among the processes of this user: who comes meanwhile waits until the server is made."""
        folder = pathlib.Path(tempfile.gettempdir(), f"ffdl-{os.getuid()}")
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{self._name}.server-lock"
        while True:
            with path.open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not _is_at(path, lock.fileno()):
                    continue  # its last holder has removed it
                try:
                    yield
                finally:
                    path.unlink()
            return


def _is_at(path: pathlib.Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False
