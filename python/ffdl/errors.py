"""One exception per status code: catch the ones that you would act on, and Error for the rest.

docs/reference/errors.md describes each for the caller. The message has the form ``<doing>
'<which>': <observed>; <what to try>``.
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

    If it is not caught, the process ends with 0, since it has no work left.
    """

    code = 0


class Conflict(Error):
    """A race was lost, or the name is in use: read again, then decide."""


class Timeout(Error, TimeoutError):
    """The time you gave passed; nothing is known about the effect."""


class Unavailable(Error):
    """Try again later; nothing happened."""


class Exhausted(Error):
    """A stated limit is full: wait, or ask for less."""


class PeerLost(Error):
    """A member died inside this call."""


class WorldChanged(Error):
    """You hold an old generation: take the new one."""


class Cancelled(Error):
    """The caller, or the owner of the object, stopped it."""


class Corrupt(Error):
    """Stored or shared bytes fail their check."""


class Unimplemented(Error, NotImplementedError):
    """This build lacks the backend; the message names the CMake option."""


class Internal(Error):
    """A bug in ffdl: report it with the log."""
