"""A lock for the processes of one user that create or end the same parameter server."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from urllib.parse import quote

from ...errors import InvalidArgument, Unavailable


@contextlib.contextmanager
def creation_lock(server: str) -> Iterator[None]:
    """Returns a context in which no other process of this user creates or ends the server.

    The lock is a file in the folder ``$TMPDIR/ffdl-UID``. TMPDIR is /tmp by default. The wait for
    the lock has no time limit.

    Raises InvalidArgument (another user owns the folder or the file, or can replace them),
    Unavailable (the folder cannot be created).
    """
    # The caller checks the name afterwards, so it may be one that no file can have.
    name = f"{quote(server, safe='', errors='replace')[:200]}.server-lock"
    with _own_folder() as folder:
        while True:
            with _opened(name, os.O_RDWR | os.O_CREAT, folder) as lock:
                if os.fstat(lock).st_uid != os.geteuid():
                    raise _refused(name, "the file belongs to another user")
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not _is_at(name, folder, lock):
                    continue  # its last holder has removed it
                try:
                    yield
                finally:
                    os.unlink(name, dir_fd=folder)
                return


@contextlib.contextmanager
def _own_folder() -> Iterator[int]:
    """Opens this user's folder for temporary files, and creates it if it is missing."""
    above = os.environ.get("TMPDIR") or "/tmp"
    path = os.path.join(above, f"ffdl-{os.geteuid()}")
    try:
        found = os.stat(above)
    except OSError as error:
        raise Unavailable(
            f"find the folder for temporary files: '{above}': {error.strerror}; create it, or set "
            "TMPDIR to another folder"
        ) from None
    if found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
        raise _refused(above, "other users may replace its files, because it has no sticky bit")
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
    except OSError as error:
        raise Unavailable(
            f"make the folder '{path}': {error.strerror}; set TMPDIR to another place"
        ) from None
    with _opened(path, os.O_RDONLY | os.O_DIRECTORY) as folder:
        found = os.fstat(folder)
        if found.st_uid != os.geteuid():
            raise _refused(path, f"it belongs to user {found.st_uid}")
        if found.st_mode & 0o022:
            raise _refused(path, "other users may write to it")
        yield folder


@contextlib.contextmanager
def _opened(path: str, flags: int, folder: int | None = None) -> Iterator[int]:
    try:
        opened = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    except OSError as error:
        raise _refused(path, f"{error.strerror}; is it a symbolic link?") from None
    try:
        yield opened
    finally:
        os.close(opened)


def _refused(path: str, why: str) -> InvalidArgument:
    return InvalidArgument(f"use '{path}': {why}; remove it, or set TMPDIR to another place")


def _is_at(name: str, folder: int, file: int) -> bool:
    try:
        at = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(at, os.fstat(file))
