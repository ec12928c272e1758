"""Operations beside compute, one after another, and the works that c10d waits for."""

from __future__ import annotations

import collections
import os
import queue
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

import ffdl

Call = Callable[[ffdl.Communicator], None]

# PyTorch before 2.7 lets the Python side of a Work go when only C++ holds it, which then waits for
# it forever: so many are kept here. C++ waits for most at once.
_KEPT_WORKS = 64 if torch.__version__ < (2, 7) else 0


class Work(dist.Work):
    """One operation, as torch.distributed returns it: to be waited for, or asked for a Future.

    What the operation raised comes from wait() each time, and from the Future: a
    torch.distributed.DistBackendError with the exception of ffdl as its cause.
    Threads: all methods from any thread.
    """

    def __init__(self, doing: str, call: Call, tensors: list[torch.Tensor]) -> None:
        super().__init__()
        self._doing = doing
        self._call: Call | None = call
        self._tensors = tensors
        self._error: Exception | None = None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._trigger: torch.futures.Future[None] | None = None
        self._future: torch.futures.Future[list[torch.Tensor]] | None = None

    def run(self, communicator: Callable[[], ffdl.Communicator]) -> None:
        """Does it, once, on the calling thread."""
        assert self._call is not None
        try:
            self._call(communicator())
        except (KeyboardInterrupt, SystemExit):
            self._end(ffdl.Cancelled(f"{self._doing}: interrupted"))
            raise
        except Exception as error:  # whoever waits gets it
            self._end(error)
        else:
            self._end(None)

    def _end(self, error: Exception | None) -> None:
        # Neither its frames nor those of whoever waits may keep what they refer to.
        self._error = error and error.with_traceback(None)
        self._call = None  # what it refers to may go
        with self._lock:
            self._ended.set()
            trigger = self._trigger
        if trigger is not None:
            trigger.set_result(None)

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""
        return self._ended.is_set()

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self._ended.is_set() and self._error is None

    def exception(self) -> Exception | None:
        """What wait() raises, another object each time; None unless it has ended badly."""
        if self._error is None:
            return None
        raised: Exception = dist.DistBackendError(str(self._error))
        raised.__cause__ = self._error
        return raised

    def _raise_error(self) -> None:
        if (error := self.exception()) is not None:
            raise error

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Waits until it has ended, which its own time-out bounds; timedelta(0): no other bound.

        Raises DistBackendError: what the operation raised, or that it has not ended by then; then
        it goes on. Ctrl-C ends the wait, not the operation.
        """
        limit_s = timeout.total_seconds() if timeout else 0.0
        if not self._ended.wait(limit_s if limit_s > 0 else None):
            raise dist.DistBackendError(
                f"wait for {self._doing}: it has not ended after {limit_s} s, and goes on; wait "
                "longer, or abort the group"
            )
        self._raise_error()
        return True

    def synchronize(self) -> None:
        """wait()."""
        self.wait()

    def result(self) -> list[torch.Tensor]:
        """The tensors that the operation writes."""
        return self._tensors

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """A Future of result(). Its callbacks run on the thread that ran the operation."""
        with self._lock:
            if self._future is not None:
                return self._future
            self._trigger = trigger = torch.futures.Future()
            # Only what a callback raises is an error to C++, too.
            self._future = future = trigger.then(self._outcome)
            ended = self._ended.is_set()
        if ended:
            trigger.set_result(None)
        return future

    def _outcome(self, _: Any) -> list[torch.Tensor]:
        self._raise_error()
        return self._tensors


class Lane:
    """Runs the operations of one communicator in the order in which they were given.

    A thread does, which is there from the first operation that is given for later. An operation
    that is waited for at once and finds nobody before it runs on the thread of its caller, which
    saves two switches of threads.
    Threads: all methods from any thread.
    """

    def __init__(self, connect: Callable[[], ffdl.Communicator]) -> None:
        self._connect: Callable[[], ffdl.Communicator] | None = connect
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._turn = threading.Lock()  # held by who runs an operation
        self._given: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._kept: collections.deque[Work] = collections.deque(maxlen=_KEPT_WORKS)
        self._not_ended = 0
        self._closed = ""  # why nothing is taken any more
        self._aborted = ""
        self._thread: threading.Thread | None = None
        self._communicator: ffdl.Communicator | None = None

    @property
    def closed(self) -> str:
        """Why nothing is taken any more; "" while something is."""
        return self._closed

    def connect(self) -> ffdl.Communicator:
        """The communicator, connected by the first call."""
        connect = self._connect
        if self._communicator is None:
            if connect is None:
                raise ffdl.Cancelled(self._closed)
            communicator = connect()
            with self._lock:
                self._communicator = communicator
                aborted = self._aborted
            if aborted:
                communicator.abort(aborted)
        return self._communicator

    def give(self, work: Work, *, waits: bool) -> Work:
        """Runs it, or lets it be run. waits: the caller will wait for it at once."""
        if os.getpid() != self._process:
            raise ffdl.Cancelled(
                f"{work._doing}: this process is a fork of the one that made the group; call "
                "init_process_group in the child, or start it with multiprocessing's 'spawn'"
            )
        with self._lock:
            if self._closed:
                raise ffdl.Cancelled(f"{work._doing}: {self._closed}")
            self._kept.append(work)
            at_once = waits and self._not_ended == 0 and self._communicator is not None
            self._not_ended += 1
            if at_once:
                self._turn.acquire()  # free, as everything has ended
            else:
                self._given.put(work)
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._run_given, name="ffdl-c10d", daemon=True
                    )
                    self._thread.start()
        if at_once:
            self._run(work)
        return work

    def _run(self, work: Work) -> None:
        try:
            work.run(self.connect)
        finally:
            self._turn.release()
            with self._lock:
                self._not_ended -= 1

    def _run_given(self) -> None:
        while (work := self._given.get()) is not None:
            self._turn.acquire()
            self._run(work)
            del work  # not until the next one comes

    def abort(self, why: str) -> None:
        """Ends what is under way; nothing can be given any more."""
        if os.getpid() != self._process:
            return
        with self._lock:
            self._closed = self._aborted = self._closed or why
            communicator = self._communicator
        if communicator is not None:
            communicator.abort(why)

    def close(self, why: str) -> None:
        """Waits for what was given, which its time-outs bound, and leaves the communicator."""
        if os.getpid() == self._process:
            with self._lock:
                self._closed = self._closed or why
                thread, self._thread = self._thread, None
                if thread is not None:
                    self._given.put(None)
            if thread is not None and thread is not threading.current_thread():
                thread.join()
            self._connect = None  # which refers to the group, which refers to its lanes
        self._communicator = None
