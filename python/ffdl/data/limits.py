"""Reports limits of the operating system, such as a full disk, that a call has reached."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from ..errors import Exhausted

_MORE_FILES = "raise the limit of open files ('ulimit -n'), or close some"
WHAT_TO_RAISE = {  # by errno
    errno.EMFILE: _MORE_FILES,
    errno.ENFILE: _MORE_FILES,
    errno.EAGAIN: "raise 'ulimit -u' or the container's limit of processes",
    errno.ENOMEM: "free some memory, or raise 'ulimit -v' or the container's limit of memory",
}


@contextlib.contextmanager
def within_limits(doing: str) -> Iterator[None]:
    """Returns a context that converts an OSError about a reached limit to Exhausted."""
    try:
        yield
    except OSError as error:
        more = WHAT_TO_RAISE.get(error.errno or 0)
        if more is None:
            raise
        raise Exhausted(f"{doing}: {error.strerror}; {more}") from error
