"""One exception for each status code. Catch those that you would act on, and Error for the rest.

docs/reference/errors.md describes each exception for the caller. The message has the form
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
    """Any failure of an ffdl call."""


class InvalidArgument(Error, ValueError):
    """Fix the call."""


class NotFound(Error):
    """The named thing does not exist."""


class JobDone(NotFound, SystemExit):
    """The job was done before this process joined, and its last state does not exist any more.

    If it is not caught, the process exits with code 0, because it has no work left.
    """

    code = 0


class Conflict(Error):
    """A race was lost, or the name is in use. Read again, then decide."""


class Timeout(Error, TimeoutError):
    """The given time has passed. The call may or may not have had its effect."""


class Unavailable(Error):
    """Nothing happened. Try again later."""


class Exhausted(Error):
    """A stated limit is full. Wait, or ask for less."""


class PeerLost(Error):
    """A member died inside this call."""


class WorldChanged(Error):
    """The caller's generation is old. Use the new generation."""


class Cancelled(Error):
    """The caller, or the owner of the object, stopped the call."""


class Corrupt(Error):
    """Stored or shared bytes fail their check."""


class Unimplemented(Error, NotImplementedError):
    """This build or machine lacks a part that the call needs. The message names the part."""


class Internal(Error):
    """A bug in ffdl. Report it with the log."""
