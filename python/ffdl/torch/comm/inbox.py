"""Receives messages on one rank, from one given rank or from any rank."""

from __future__ import annotations

import collections
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import ffdl

from . import operations
from .lane import KEPT_WORKS, Lane, Work
from .tensors import copy_to, refuse

# Between two looks for ranks that begin to send: first, and at most.
_LOOK_S = 0.002
_LOOK_MAX_S = 0.05


class Receive(Work):
    """One receive into a tensor, from rank `source`, or from any rank if `source` is None."""

    def __init__(
        self, tensor: torch.Tensor, source: int | None, tag: int, timeout_s: float
    ) -> None:
        super().__init__("recv" if source is not None else "recv from any rank", None, [tensor])
        self.source = source
        self.tag = tag
        self.timeout_s = timeout_s
        self.posted = time.monotonic()
        self._sender = -1

    def source_rank(self) -> int:
        """Returns the sender's rank within the group, or -1 before the message has arrived."""
        return self._sender

    _source_rank = source_rank  # torch.distributed.recv() calls this one

    def takes(self, sender: int, tag: int) -> bool:
        """Returns True if this receive accepts the next message of rank `sender` with tag `tag`."""
        return self.source == sender or (self.source is None and self.tag == tag)

    def read(
        self, communicator: ffdl.Communicator, sender: int, head: Any, timeout_s: float
    ) -> None:
        """Receives the data of a message after its header, and ends this receive.

        Raises the communicator's errors.
        """
        (tensor,) = self._tensors
        out = tensor.detach().contiguous()
        body = operations.as_bytes(out)
        _, tag, size = (int(one) for one in head)
        fits = np.array_equal(operations.header(tensor, self.tag), head)
        try:
            if not fits:
                body = np.empty(size, np.int8)  # so that the next message can be received
            if size > 0:
                communicator.recv(body, from_=0, timeout_s=timeout_s)
        except Exception as error:
            self._end(error)
            raise
        self._sender = sender
        if fits:
            if out.data_ptr() != tensor.data_ptr():
                copy_to(tensor, out)
            self._end(None)
            return
        self._end(
            refuse(
                f"recv {tensor.numel()} {tensor.dtype} with tag {self.tag} from rank {sender}",
                f"the rank sent {size} bytes with tag {tag}, perhaps in another dtype; call send "
                "and recv in the same order, with the same dtypes, sizes and tags",
            )
        )


class _Turn(Work):
    """A Work that waits for one message of a sender, on the sender's lane."""

    def __init__(self, inbox: Inbox, sender: int) -> None:
        super().__init__("recv", None, [])
        self._inbox = inbox
        self._sender = sender

    def run(self, communicator: Callable[[], ffdl.Communicator]) -> None:
        """Waits for a message. The receives, and not run(), report the communicator's errors."""
        self._inbox._run(self._sender, communicator)


class Inbox:
    """Assigns each message that arrives on a rank to the first matching receive of this rank.

    A message begins with a header of the message's dtype, tag and size. If a waiting receive could
    accept the message, the lane of the sender reads the header. Then the lane reads the data into
    the tensor of the first receive that accepts the message. Until a receive accepts a message, the
    inbox stores the message's header. So a receive whose source is None accepts exactly one
    message, from any rank. A rank that begins to send sets a key in c10d's store. While a receive
    from any rank waits, the inbox looks for the keys of senders. When the inbox has found a rank's
    key, the lane of that rank waits for messages.

    members: the name of each rank, for error messages.
    lane: returns the lane for the messages of a rank.
    calls: returns True if a rank has begun to send, and waits for a connection to this rank.

    Threads: any thread may call any method. The first receive starts a thread for time-outs.
    """

    def __init__(
        self,
        members: Sequence[str],
        own_rank: int,
        lane: Callable[[int], Lane],
        calls: Callable[[int], bool],
    ) -> None:
        self._members = members
        self._others = [rank for rank in range(len(members)) if rank != own_rank]
        self._lane: Callable[[int], Lane] | None = lane
        self._calls: Callable[[int], bool] | None = calls
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._waiting: list[Receive] = []
        self._reading = 0  # receives whose message is arriving
        self._kept: collections.deque[Receive] = collections.deque(maxlen=KEPT_WORKS)
        self._heads: dict[int, Any] = {}  # by sender: the header of its next message
        self._busy: set[int] = set()  # senders whose lanes have a turn
        self._senders: set[int] = set()  # those that have begun to send
        self._lost: dict[int, Exception] = {}  # by sender: why it sends nothing any more
        self._arrived: dict[int | None, float] = {}  # by source of a receive: the last message
        self._closed = ""
        self._clock: threading.Thread | None = None
        self._next_look = math.inf  # of the clock
        self._look_s = _LOOK_S

    def give(self, receive: Receive) -> Receive:
        """Starts a receive of one message."""
        with self._changed:
            if self._closed:
                raise ffdl.Cancelled(f"{receive._doing}: {self._closed}")
            self._kept.append(receive)
            if receive.source is None and len(self._lost) == len(self._others):
                receive._end(next(iter(self._lost.values())))
                return receive
            self._waiting.append(receive)
            self._look_s = _LOOK_S
            if self._clock is None:
                self._clock = threading.Thread(target=self._watch, name="ffdl-recv", daemon=True)
                self._clock.start()
            if receive.source is None or self._deadline(receive) < self._next_look:
                self._changed.notify_all()
            for sender in self._others if receive.source is None else [receive.source]:
                self._listen(sender)
        return receive

    def abort(self, why: str) -> None:
        """Ends all receives in progress, and accepts no further receive."""
        if os.getpid() != self._process:
            return
        with self._changed:
            self._closed = self._closed or why
            ended, self._waiting = self._waiting, []
            self._changed.notify_all()
        for receive in ended:
            receive._end(ffdl.Cancelled(f"{receive._doing}: {why}"))

    def close(self, why: str) -> None:
        """Waits until all started receives have ended or timed out."""
        if os.getpid() != self._process:
            return
        with self._changed:
            self._closed = self._closed or why
            self._changed.notify_all()
            while self._waiting or self._reading:
                self._changed.wait()
            idle = [self._lane(sender) for sender in self._busy] if self._lane else []
            clock, self._clock = self._clock, None
        for lane in idle:  # they wait for messages that no receive will take
            lane.abort(why)
        if clock is not None and clock is not threading.current_thread():
            clock.join()
        self._lane = self._calls = None  # which refer to the group, which refers to this

    def _deadline(self, receive: Receive) -> float:
        """Returns the deadline: timeout_s after the call or the source's last message, if later."""
        begin = max(receive.posted, self._arrived.get(receive.source, 0.0))
        return begin + receive.timeout_s

    def _first(self, sender: int, tag: int) -> Receive | None:
        return next((one for one in self._waiting if one.takes(sender, tag)), None)

    def _is_wanted(self, sender: int) -> bool:
        head = self._heads.get(sender)
        if head is not None:
            return self._first(sender, int(head[1])) is not None
        sends = sender in self._senders and sender not in self._lost
        return any(
            one.source == sender or (one.source is None and sends) for one in self._waiting
        )

    def _listen(self, sender: int) -> None:
        if sender in self._busy or self._lane is None or not self._is_wanted(sender):
            return
        self._busy.add(sender)
        try:
            self._lane(sender).give(_Turn(self, sender), waits=False)
        except ffdl.Cancelled:  # it is being closed, and so is this
            self._busy.discard(sender)

    def _run(self, sender: int, connect: Callable[[], ffdl.Communicator]) -> None:
        """Handles one message of a sender, on the thread of the sender's lane."""
        failure: Exception | None = None
        try:
            communicator = connect()
            with self._changed:
                self._senders.add(sender)
            self._take(sender, communicator)
        except Exception as error:
            failure = error.with_traceback(None)
        with self._changed:
            self._busy.discard(sender)
            ended = self._lose(sender, failure) if failure else []
            self._listen(sender)
            if self._closed:
                self._changed.notify_all()
        for receive in ended:
            receive._end(failure)

    def _take(self, sender: int, communicator: ffdl.Communicator) -> None:
        head = self._heads.get(sender)
        if head is None:
            head = np.zeros(operations.HEADER_WORDS, np.int64)
            communicator.recv(head, from_=0, timeout_s=math.inf)
        with self._changed:
            receive = self._first(sender, int(head[1]))
            if receive is None:
                self._heads[sender] = head
                return
            self._heads.pop(sender, None)
            self._waiting.remove(receive)
            self._reading += 1
            left_s = self._deadline(receive) - time.monotonic()
        try:
            receive.read(communicator, sender, head, max(left_s, 0.0))
            with self._changed:
                self._arrived[sender] = self._arrived[None] = time.monotonic()
        finally:
            with self._changed:
                self._reading -= 1
                if self._closed:
                    self._changed.notify_all()

    def _lose(self, sender: int, failure: Exception) -> list[Receive]:
        """Removes and returns the receives that fail because a sender's lane has failed."""
        if sender in self._senders:  # else it has not begun to send, and may do so later
            self._lost[sender] = failure
        hopeless = len(self._lost) == len(self._others)
        return self._remove(
            lambda one: one.source == sender or (one.source is None and hopeless)
        )

    def _remove(self, ends: Callable[[Receive], bool]) -> list[Receive]:
        ended = [one for one in self._waiting if ends(one)]
        if ended:
            self._waiting = [one for one in self._waiting if not ends(one)]
            self._changed.notify_all()
        return ended

    def _watch(self) -> None:
        while self._watch_once():
            pass

    def _watch_once(self) -> bool:
        """Ends receives that have timed out, and looks for ranks that have begun to send."""
        with self._changed:
            if self._closed and not self._waiting:
                return False
            now = time.monotonic()
            late = self._remove(lambda one: self._deadline(one) <= now)
            errors = [self._timeout(one) for one in late]
            unknown = [one for one in self._others if one not in self._senders | self._busy]
            looks = any(one.source is None for one in self._waiting)
            if not late and not (looks and unknown):
                self._next_look = min(map(self._deadline, self._waiting), default=math.inf)
                self._changed.wait(self._next_look - now if self._next_look < math.inf else None)
                return True
        for receive, error in zip(late, errors, strict=True):
            receive._end(error)
        if looks:
            self._look_for(unknown)
        return True

    def _look_for(self, unknown: list[int]) -> None:
        ended: list[Receive] = []
        failure: Exception | None = None
        calls = self._calls
        try:
            found = [sender for sender in unknown if calls is not None and calls(sender)]
        except Exception as error:  # of c10d's store
            found, failure = [], error
        with self._changed:
            if failure is not None:
                ended = self._remove(lambda one: one.source is None)
            self._senders.update(found)
            for sender in found:
                self._listen(sender)
            if not found:
                self._changed.wait(self._look_s)
                self._look_s = min(2 * self._look_s, _LOOK_MAX_S)
        for receive in ended:
            receive._end(failure)

    def _timeout(self, receive: Receive) -> ffdl.Timeout:
        known = [
            *(f"{self._name(sender)} has sent a message with tag {head[1]}"
              for sender, head in self._heads.items()),
            *(f"{self._name(sender)} is lost" for sender in self._lost),
        ]
        return ffdl.Timeout(
            f"{self._doing(receive)}: no message has arrived"
            + "".join(f", {one}" for one in known if receive.source is None)
            + "; call send at the sender, or set a longer timeout for the process group"
        )

    def _doing(self, receive: Receive) -> str:
        if receive.source is None:
            return f"recv from any rank with tag {receive.tag}"
        return f"recv from {self._name(receive.source)}"

    def _name(self, rank: int) -> str:
        return f"rank {rank} '{self._members[rank]}'"
