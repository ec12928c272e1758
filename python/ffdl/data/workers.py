"""Loads batches in other processes before the training process needs these batches."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Hashable
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, NamedTuple

from ..errors import Error, InvalidArgument, PeerLost
from .limits import within_limits
from .transfer import LARGE_BYTES, Packed, Slot, pack

_END_S = 1.0  # longest wait for the exit status of a process


class _Task(NamedTuple):
    number: int
    slot: int
    brings_slot: bool  # its file follows
    arguments: tuple[Any, ...]


class _Done(NamedTuple):
    number: int
    packed: Packed | None
    error: bytes | None = None  # pickled
    text: str = ""


class _Outcome(NamedTuple):
    batch: Any = None
    error: Exception | None = None


def _serve(
    connection: Connection, number: int, load: Callable[..., Any], init: Callable[[int], Any] | None
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the training process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)
    files: list[int] = []
    trainer = multiprocessing.parent_process()
    assert trainer is not None
    failure = None
    try:
        if init is not None:
            init(number)
    except Exception as error:  # raised by the first batch
        failure = error
    try:
        while True:
            # A pipe does not report the end: each forked process has a copy of its other end, too.
            if connection not in wait([connection, trainer.sentinel]):
                return
            task = connection.recv()
            if task.brings_slot:
                files.append(recv_handle(connection))
            connection.send(_perform(task, load, files, failure))
    except (EOFError, OSError):  # the training process has ended
        return


def _perform(
    task: _Task, load: Callable[..., Any], files: list[int], failure: Exception | None
) -> _Done:
    try:
        if failure is not None:
            raise failure
        return _Done(task.number, pack(load(*task.arguments), files[task.slot]))
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        return _Done(task.number, None, _pickled(error), text[-LARGE_BYTES:])


def _pickled(error: Exception) -> bytes | None:
    """Pickles an exception. None: the exception is too large, or cannot be pickled."""
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)
    except Exception:
        return None
    return pickled if len(pickled) <= LARGE_BYTES else None


class _Worker:
    """One loading process, its tasks, and the slots into which the process writes batches."""

    def __init__(
        self, context: Any, number: int, load: Callable[..., Any],
        init: Callable[[int], Any] | None,
    ) -> None:
        self.connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, number, load, init), daemon=True,
            name=f"ffdl-load-{number}"
        )
        try:
            self._process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InvalidArgument(
                f"start a loading process: {error}; pass a data set and functions that can be "
                "pickled, or multiprocessing_context='fork'"
            ) from error
        theirs.close()
        self._slots: list[Slot] = []
        self._busy: set[int] = set()
        self.tasks: deque[int] = deque()
        self._slot_of: dict[int, int] = {}

    def give(self, number: int, arguments: tuple[Any, ...]) -> None:
        slot = next(
            (i for i, one in enumerate(self._slots) if i not in self._busy and one.is_free()),
            len(self._slots),
        )
        brings_slot = slot == len(self._slots)
        if brings_slot:
            with within_limits("load a batch"):
                self._slots.append(Slot())
        self._busy.add(slot)
        self._slot_of[number] = slot
        self.tasks.append(number)
        try:
            with within_limits("load a batch"):
                self.connection.send(_Task(number, slot, brings_slot, arguments))
                if brings_slot:
                    send_handle(self.connection, self._slots[slot].file, self._process.pid)
        except OSError:
            raise self._lost() from None

    def receive(self, is_wanted: Callable[[int], bool]) -> tuple[int, _Outcome]:
        """Waits until the next task is done, and returns the task's number and outcome.

        If the task's batch was dropped, the outcome is empty.
        """
        try:
            done = self.connection.recv()
        except (EOFError, OSError):
            raise self._lost() from None
        self.tasks.popleft()
        slot = self._slot_of.pop(done.number)
        self._busy.discard(slot)
        if not is_wanted(done.number):
            return done.number, _Outcome()
        if done.packed is None:
            return done.number, _Outcome(error=_error_of(done))
        return done.number, _Outcome(self._slots[slot].unpack(done.packed))

    def _lost(self) -> Error:
        self._process.join(_END_S)
        code = self._process.exitcode
        how = f"was killed by signal {-code}" if code and code < 0 else f"exited with {code}"
        return PeerLost(
            f"load a batch: the loading process {self._process.pid} {how}; check its last output "
            "and the machine's memory, and create another loader"
        )

    def close(self) -> None:
        self.connection.close()
        self._process.terminate()
        self._process.join()
        for slot in self._slots:
            slot.close()


def _error_of(done: _Done) -> Exception:
    """Returns a failed task's exception, with the traceback of the loading process."""
    text = f"in a loading process:\n{done.text}"
    if done.error is None:
        return Error(text)
    error: Exception = pickle.loads(done.error)
    error.__cause__ = Error(text)
    return error


class WorkerPool:
    """Loads batches in several processes.

    Each process loads its batches in the order of the calls of start(). Each batch is identified by
    a key. If keep() drops a batch that is not loaded yet, the batch is loaded and then discarded.
    The processes start when the pool is created, so create the pool before a session opens. A
    process that is forked while a session is open would keep the session's connections open.
    Threads: one thread may use the pool at a time.
    """

    def __init__(
        self, load: Callable[..., Any], workers: int, *, context: str | None = None,
        init: Callable[[int], Any] | None = None,
    ) -> None:
        self._owner = os.getpid()
        self._numbers = itertools.count()
        self._number_of: dict[Hashable, int] = {}
        self._place_of: dict[int, _Worker] = {}
        self._ready: dict[int, _Outcome] = {}
        self._workers: list[_Worker] = []
        made = multiprocessing.get_context(context)
        try:
            for number in range(workers):
                with within_limits("start a loading process"):
                    self._workers.append(_Worker(made, number, load, init))
        except BaseException:
            self.close()
            raise

    def __contains__(self, key: Hashable) -> bool:
        return key in self._number_of

    def start(self, key: Hashable, arguments: tuple[Any, ...]) -> None:
        """Starts to load a batch in the process with the fewest tasks."""
        number = next(self._numbers)
        worker = min(self._workers, key=lambda one: len(one.tasks))
        self._number_of[key] = number
        self._place_of[number] = worker
        worker.give(number, arguments)

    def keep(self, keys: set[Hashable]) -> None:
        """Drops all batches whose keys are not in `keys`, because their samples have changed."""
        for key in [key for key in self._number_of if key not in keys]:
            self._forget(key)

    def take(self, key: Hashable) -> Any:
        """Waits for a batch, and returns it. Raises the errors of loading, and PeerLost."""
        number = self._number_of[key]
        worker = self._place_of[number]
        try:
            while number in worker.tasks:
                done, outcome = worker.receive(self._is_wanted)
                if self._is_wanted(done):
                    self._ready[done] = outcome
            outcome = self._ready[number]
        finally:
            self._forget(key)
        if outcome.error is not None:
            raise outcome.error
        return outcome.batch

    def close(self) -> None:
        """Ends the loading processes. Batches that take() has returned stay valid."""
        if os.getpid() == self._owner:
            for worker in self._workers:
                worker.close()
        self._workers = []

    def _is_wanted(self, number: int) -> bool:
        return number in self._place_of

    def _forget(self, key: Hashable) -> None:
        number = self._number_of.pop(key)
        del self._place_of[number]
        self._ready.pop(number, None)
