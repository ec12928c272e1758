"""Local copies of files in an object store, with a limit on their total size."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from typing import Any

from ..errors import Exhausted, InvalidArgument
from ..remote import call, folder_lock, is_url, open_url

_COPY = re.compile(r"[0-9a-f]{32}-.+")


def local_copies(
    urls: Sequence[str | os.PathLike[str]], folder: str | os.PathLike[str], *, max_bytes: int,
    storage_options: dict[str, Any] | None = None,
) -> list[str]:
    """Returns the local paths of files, after a download of the files at URLs.

    ::

        paths = ffdl.data.local_copies(["s3://bucket/a.parquet"], "/scratch/data", max_bytes=10**12)
        data = ffdl.data.open_parquet(paths)

    urls: URLs that fsspec supports, or local paths. Local paths are returned unchanged.
    folder: the folder for the copies of one job. All processes of the job on a host may share the
    folder. An incomplete download is never used. A later call of local_copies() returns the same
    copy, unless the file at the URL has changed.
    max_bytes: the maximum total size of all copies in the folder. If there is not enough space, the
    call removes other copies, beginning with the least recently used copy.

    Raises Exhausted (the files exceed max_bytes, or the disk is full), NotFound, InvalidArgument
    and Unavailable. Raises Unimplemented if the package that fsspec needs for a URL is not
    installed.
    """
    if isinstance(urls, (str, os.PathLike)):
        raise InvalidArgument(f"copy files: 'urls' is {urls!r}; pass a list of URLs")
    folder = os.fspath(folder)
    wanted: list[tuple[str, str, int]] = []  # URL, path here, bytes
    for url in map(os.fspath, urls):
        if not is_url(url):
            wanted.append((url, url, 0))
            continue
        version, size = call(f"look at '{url}'", lambda: _look_at(url, storage_options))
        name = f"{version}-{url.rstrip('/').rpartition('/')[2]}"
        wanted.append((url, os.path.join(folder, name), size))
    total = sum({path: size for _, path, size in wanted}.values())
    if total > max_bytes:
        raise Exhausted(
            f"copy {len(wanted)} files to '{folder}': they have {total} bytes, and max_bytes is "
            f"{max_bytes}; raise max_bytes, or pass fewer files"
        )
    call(f"make '{folder}'", lambda: os.makedirs(folder, exist_ok=True))
    with folder_lock(folder, waits=True):
        call(f"make room in '{folder}'",
             lambda: _make_room(folder, {path for _, path, _ in wanted}, max_bytes - total))
        for url, path, size in wanted:
            if is_url(url):
                call(f"copy '{url}' to '{path}'",
                     lambda: _copy(url, path, size, storage_options))
    return [path for _, path, _ in wanted]


def _look_at(url: str, storage_options: dict[str, Any] | None) -> tuple[str, int]:
    """Returns a hash of the file's present version, and the file's size in bytes."""
    files, path = open_url(url, storage_options)
    files.invalidate_cache()
    facts = files.info(path)
    if facts["type"] != "file":
        raise InvalidArgument(f"copy '{url}': it is a folder; name its files")
    version = f"{url} {facts['size']} {files.checksum(path)}"
    return hashlib.sha256(version.encode()).hexdigest()[:32], facts["size"]


def _make_room(folder: str, wanted: set[str], room: int) -> None:
    """Removes unwanted copies, least recently used first, until at most `room` bytes remain."""
    others = []
    for entry in os.scandir(folder):
        if _COPY.fullmatch(entry.name) and entry.path not in wanted:
            facts = entry.stat()
            others.append((facts.st_mtime_ns, facts.st_size, entry.path))
    for _, size, path in sorted(others, reverse=True):
        room -= size
        if room < 0:
            os.remove(path)


def _copy(url: str, path: str, size: int, storage_options: dict[str, Any] | None) -> None:
    if os.path.exists(path):
        os.utime(path)
        return
    files, remote = open_url(url, storage_options)
    unfinished = path + ".unfinished"
    files.get_file(remote, unfinished)
    if os.path.getsize(unfinished) != size:
        raise OSError(f"{os.path.getsize(unfinished)} of {size} bytes arrived")
    os.replace(unfinished, path)
