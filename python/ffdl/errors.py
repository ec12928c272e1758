"""One exception per status code: catch the ones that you would act on, and Error for the rest.

docs/errors.md says what each means for the caller. The message has the form
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
    """What was named does not exist."""


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
    """You or the owner stopped it."""


class Corrupt(Error):
    """Stored or shared bytes fail their check."""


class Unimplemented(Error, NotImplementedError):
    """This build lacks the backend; the message names the CMake option."""


class Internal(Error):
    """A bug in ffdl: report it with the log."""
