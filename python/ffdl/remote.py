"""Reads and writes a folder at a URL that fsspec supports, such as a bucket of S3."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from .errors import Error, Exhausted, InvalidArgument, NotFound, Unavailable, Unimplemented

_Value = TypeVar("_Value")


def is_url(path: str) -> bool:
    return "://" in path


def open_url(url: str, storage_options: dict[str, Any] | None = None) -> tuple[Any, str]:
    """Returns the file system of a URL, and the URL's path in that file system."""
    if not is_url(url):
        raise InvalidArgument(
            f"open '{url}': it is no URL; give one such as 's3://bucket/folder'")
    try:
        from fsspec.core import url_to_fs

        return url_to_fs(url, **(storage_options or {}))  # type: ignore[no-any-return]
    except ImportError as error:
        raise Unimplemented(
            f"open '{url}': {error}; pip install 'ffdl[s3]', or fsspec's package for this URL"
        ) from error
    except (ValueError, TypeError) as error:
        raise InvalidArgument(
            f"open '{url}': {error}; check the URL and storage_options") from error


def call(doing: str, function: Callable[[], _Value]) -> _Value:
    """Calls a function of fsspec, and converts each exception to an error of ffdl."""
    try:
        return function()
    except Error:
        raise
    except FileNotFoundError as error:
        raise NotFound(f"{doing}: {error or 'no such file'}; check the URL") from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Exhausted(f"{doing}: {error}; free disk space, or use another disk") from error
        raise Unavailable(
            f"{doing}: {type(error).__name__}: {error}; check the URL, the access and the network"
        ) from error


class RemoteFolder:
    """Lists, reads and writes the files below a URL. A name is FILE or FOLDER/FILE.

    Threads: any thread may call a RemoteFolder, but only one at a time.
    Raises InvalidArgument, Unimplemented, NotFound, Unavailable and Exhausted (a full disk). The
    message of each error contains the URL.
    """

    def __init__(self, url: str, storage_options: dict[str, Any] | None = None) -> None:
        self.url = url.rstrip("/")
        self._files, root = open_url(self.url, storage_options)
        self._root = root.rstrip("/")

    def list(self) -> dict[str, dict[str, int]]:
        """Returns a dict that maps each folder to its files and their sizes."""
        def find() -> dict[str, Any]:
            self._files.invalidate_cache()
            return self._files.find(self._root, detail=True)  # type: ignore[no-any-return]

        folders: dict[str, dict[str, int]] = {}
        for path, facts in call(f"list '{self.url}'", find).items():
            folder, _, name = path.removeprefix(self._root).lstrip("/").rpartition("/")
            folders.setdefault(folder, {})[name] = facts["size"]
        return folders

    def read(self, name: str) -> bytes:
        return call(f"read '{self.url}/{name}'", lambda: self._files.cat_file(self._at(name)))

    def write(self, name: str, content: bytes) -> None:
        def write() -> None:
            self._files.makedirs(os.path.dirname(self._at(name)), exist_ok=True)
            self._files.pipe_file(self._at(name), content)

        call(f"write '{self.url}/{name}'", write)

    def upload(self, path: str, name: str) -> None:
        def put() -> None:
            self._files.makedirs(os.path.dirname(self._at(name)), exist_ok=True)
            self._files.put_file(path, self._at(name))

        call(f"upload '{path}' to '{self.url}/{name}'", put)

    def download(self, name: str, path: str) -> None:
        call(f"download '{self.url}/{name}' to '{path}'",
             lambda: self._files.get_file(self._at(name), path))

    def remove(self, name: str) -> None:
        """Removes a file. If the file is missing, does nothing."""
        with contextlib.suppress(NotFound):
            call(f"remove '{self.url}/{name}'", lambda: self._files.rm_file(self._at(name)))

    def remove_empty(self, name: str) -> None:
        """Removes an empty folder. Ignores errors, because some object stores have no folders."""
        with contextlib.suppress(Exception):
            self._files.rmdir(self._at(name))

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"


@contextlib.contextmanager
def folder_lock(folder: str, *, waits: bool) -> Iterator[bool]:
    """Returns a context that locks a folder for one process. A process that dies loses its lock.

    If another process holds the lock and `waits` is False, the context yields False.
    """
    path = os.path.join(folder, ".lock")
    try:
        file = open(path, "ab")
    except OSError as error:
        raise Unavailable(f"open '{path}': {error.strerror}; check the folder") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
