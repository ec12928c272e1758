"""Runs operations in order while the program computes. Each operation is a Work of c10d."""

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

# PyTorch before 2.7 drops the Python side of a Work when only C++ holds it, which then waits for it
# forever. So that many are kept here. C++ waits for most at once.
KEPT_WORKS = 64 if torch.__version__ < (2, 7) else 0


class Work(dist.Work):
    """One operation: the object that torch.distributed returns, with wait() and a Future.

    If the operation fails, each call of wait() raises a torch.distributed.DistBackendError, and the
    Future reports the same error. The cause of the DistBackendError is the exception of ffdl.
    Threads: all methods from any thread.
    """

    def __init__(self, doing: str, call: Call | None, tensors: list[torch.Tensor]) -> None:
        super().__init__()
        self._doing = doing
        self._call = call
        self._tensors = tensors
        self._error: Exception | None = None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._trigger: torch.futures.Future[None] | None = None
        self._future: torch.futures.Future[list[torch.Tensor]] | None = None

    def run(self, communicator: Callable[[], ffdl.Communicator]) -> None:
        """Runs the operation on the calling thread. Only one call of run() is allowed."""
        assert self._call is not None
        try:
            self._call(communicator())
        except (KeyboardInterrupt, SystemExit):
            self._end(ffdl.Cancelled(f"{self._doing}: interrupted"))
            raise
        except Exception as error:  # wait() raises it
            self._end(error)
        else:
            self._end(None)

    def _end(self, error: Exception | None) -> None:
        # The frames of the operation and of its waiters must not keep their objects alive.
        self._error = error and error.with_traceback(None)
        self._call = None  # its objects may be freed
        with self._lock:
            self._ended.set()
            trigger = self._trigger
        if trigger is not None:
            trigger.set_result(None)

    def is_completed(self) -> bool:
        """Returns True if the operation has ended, with or without an error."""
        return self._ended.is_set()

    def is_success(self) -> bool:
        """Returns True if the operation has ended without an error."""
        return self._ended.is_set() and self._error is None

    def exception(self) -> Exception | None:
        """Returns a copy of the exception that wait() raises, or None if it raises no exception."""
        if self._error is None:
            return None
        late = f"{self._doing}: its timeout has passed: " * isinstance(self._error, ffdl.Timeout)
        raised: Exception = dist.DistBackendError(f"{late}{self._error}")
        raised.__cause__ = self._error
        return raised

    def _raise_error(self) -> None:
        if (error := self.exception()) is not None:
            raise error

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Waits until the operation has ended, for at most `timeout`.

        timeout: the longest wait. timedelta(0): only the operation's own time-out limits the wait.

        Raises DistBackendError if the operation failed or has not ended in time. If wait() times
        out, the operation continues. Ctrl-C ends the wait, but not the operation.
        """
        limit_s = timeout.total_seconds() if timeout else 0.0
        if not self._ended.wait(limit_s if limit_s > 0 else None):
            raise dist.DistBackendError(
                f"wait for {self._doing}: it has not ended after {limit_s} s, and continues; wait "
                "longer, or abort the group"
            )
        self._raise_error()
        return True

    def synchronize(self) -> None:
        """Calls wait(), as the class Work of torch.distributed requires."""
        self.wait()

    def result(self) -> list[torch.Tensor]:
        """Returns the tensors that the operation writes."""
        return self._tensors

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """Returns a Future whose value is the list of tensors of result().

        The Future's callbacks run on the thread that runs the operation. A callback that is added
        after the end of the operation runs at once.
        """
        with self._lock:
            if self._future is not None:
                return self._future
            self._trigger = trigger = torch.futures.Future()
            # Only an exception of a callback is an error to C++, too.
            self._future = future = trigger.then(self._outcome)
            ended = self._ended.is_set()
        if ended:
            trigger.set_result(None)
        return future

    def _outcome(self, _: Any) -> list[torch.Tensor]:
        self._raise_error()
        return self._tensors


class Lane:
    """Runs the operations of one communicator in the order in which they were passed to give().

    A thread of the lane runs queued operations. If the caller waits at once, the lane is connected,
    and no earlier operation is pending, the operation runs on the caller's thread instead.
    Threads: any thread may call any method.
    """

    def __init__(
        self, connect: Callable[[], ffdl.Communicator], give_up: Callable[[], None]
    ) -> None:
        """connect: returns a new communicator. give_up: ends a connect() in progress."""
        self._connect: Callable[[], ffdl.Communicator] | None = connect
        self._give_up = give_up
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._turn = threading.Lock()  # held by the thread that runs an operation
        self._given: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._kept: collections.deque[Work] = collections.deque(maxlen=KEPT_WORKS)
        self._not_ended = 0
        self._closed = ""  # the reason why no operation is accepted any more
        self._aborted = ""
        self._thread: threading.Thread | None = None
        self._communicator: ffdl.Communicator | None = None

    def connect(self) -> ffdl.Communicator:
        """Connects the communicator on the first call, and returns the communicator."""
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

    def check(self, doing: str) -> None:
        """Raises Cancelled if this lane was closed or aborted, and accepts no operations."""
        if os.getpid() != self._process:
            raise ffdl.Cancelled(
                f"{doing}: this process was forked after the group was created; call "
                "init_process_group in this process, or start it with multiprocessing's 'spawn'"
            )
        if self._closed:
            raise ffdl.Cancelled(f"{doing}: {self._closed}")

    def give(self, work: Work, *, waits: bool) -> Work:
        """Runs or queues an operation. waits: the caller will wait for the operation at once."""
        self.check(work._doing)  # before the lock, which a thread may have held during a fork
        with self._lock:
            self.check(work._doing)
            self._kept.append(work)
            at_once = waits and self._not_ended == 0 and self._communicator is not None
            self._not_ended += 1
            if at_once:
                self._turn.acquire()  # free, since all operations have ended
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
            del work  # freed before the next one arrives

    def abort(self, why: str) -> None:
        """Ends the lane's operations in progress, and accepts no further operation."""
        if os.getpid() != self._process:
            return
        self._give_up()
        with self._lock:
            self._closed = self._aborted = self._closed or why
            communicator = self._communicator
        if communicator is not None:
            communicator.abort(why)

    def close(self, why: str) -> None:
        """Waits until accepted operations have ended or timed out. Releases the communicator."""
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
