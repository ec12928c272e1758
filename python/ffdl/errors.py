"""Defines one exception for each error code in C++.

Catch the exceptions that you can handle, and the base class Error for all others.
docs/reference/errors.md says how to handle each exception. A message has the form
``<doing> '<which>': <observed>; <what to try>``.
"""

__all__ = [
    "Cancelled",
    "Conflict",
    "Corrupt",
    "Error",
    "Exhausted",
    "Internal",
    "InvalidArgument",
    "JobDone",
    "NotFound",
    "PeerLost",
    "Timeout",
    "Unavailable",
    "Unimplemented",
    "WorldChanged",
]


class Error(Exception):
    """The base class of ffdl's exceptions."""


class InvalidArgument(Error, ValueError):
    """The call is invalid, and would fail again. Correct the call."""


class NotFound(Error):
    """The named object does not exist."""


class JobDone(NotFound, SystemExit):
    """The job ended before this process joined, and no member or checkpoint has its last state.

    If JobDone is not caught, the process exits with code 0, because it has no work left.
    """

    code = 0


class Conflict(Error):
    """Another caller changed the value, or the name is in use. Read the value before a retry."""


class Timeout(Error, TimeoutError):
    """The time limit of the call has passed. The call may nevertheless have had its effect."""


class Unavailable(Error):
    """The call had no effect. The same call may succeed at a later time."""


class Exhausted(Error):
    """The call reached the limit that the message names. Wait, request less, or raise the limit."""


class PeerLost(Error):
    """A process that the call needs, such as another member of the world, has died."""


class WorldChanged(Error):
    """The call's world has ended. Repeat the call with the generation of the new world.

    For a ledger in a store: other workers got the samples of the batch. Take the next batch.
    """


class Cancelled(Error):
    """The caller, or the owner of the object, stopped the call."""


class Corrupt(Error):
    """Stored or shared bytes are damaged."""


class Unimplemented(Error, NotImplementedError):
    """This build or machine lacks a part that the call needs, which the message names."""


class Internal(Error):
    """The call found a bug in ffdl. Report the bug together with the log."""
