"""Lists and sorts the checkpoints of a folder on a disk or in an object store."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO, NamedTuple

from ..errors import Corrupt, NotFound
from ..remote import RemoteFolder, is_url

LAYOUT_FILE = "layout.json"  # of the whole folder: docs/reference/file-formats.md
_FOLDER = re.compile(r"([^/]+)\.(\d{12,})\.l(\d+)\.g(\d+)\.[0-9a-f]{16}")
_MARK = re.compile(r"published-(\d{12,})-([0-9a-f]{16})")
_FILE = re.compile(r"(shard|manifest|published)-.+")


class StoredCheckpoint(NamedTuple):
    """A published checkpoint in a folder of checkpoints: it has a file ``published-...``."""

    name: str  # of its own folder
    job: str
    step: int
    number: int  # of its publication; a later one has a larger one
    manifest: str  # the name of the file
    order: tuple[int, int, int]  # lineage, generation, step

    @property
    def mark(self) -> str:
        """The name of the empty file that marks the checkpoint as published."""
        return mark_of(self.number, self.manifest)


def create_file(path: str) -> BinaryIO:
    """Creates an empty file, in place of an earlier file. Follows no symbolic link."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
    return open(path, "xb")


def mark_of(number: int, manifest: str) -> str:
    digits = manifest.removeprefix("manifest-").removesuffix(".json")
    return f"published-{number:012}-{digits}"


def parse(name: str, files: Iterable[str]) -> StoredCheckpoint | None:
    """Returns the published checkpoint in the folder `name`, or None without such a checkpoint.

    files: the names of the files in the folder.
    """
    label = _FOLDER.fullmatch(name)
    marks = [(int(found[1]), found[2]) for found in map(_MARK.fullmatch, files) if found]
    if label is None or not marks:
        return None
    number, digits = max(marks)
    step, lineage, generation = int(label[2]), int(label[3]), int(label[4])
    return StoredCheckpoint(
        name, label[1], step, number, f"manifest-{digits}.json", (lineage, generation, step))


def newest_first(folders: Mapping[str, Iterable[str]]) -> list[StoredCheckpoint]:
    found = [one for one in (parse(*item) for item in folders.items()) if one is not None]
    return sorted(found, key=lambda one: (one.number, one.order), reverse=True)


def job_of(name: str) -> str | None:
    """Reads the job's name from the name of a checkpoint's folder, or None from other names."""
    label = _FOLDER.fullmatch(name)
    return label and label[1]


def is_checkpoint_file(name: str) -> bool:
    return _FILE.fullmatch(name) is not None


def list_folder(folder: str) -> list[StoredCheckpoint]:
    """Returns the published checkpoints of a folder on the disk, beginning with the newest."""
    folders = {}
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    for name in filter(job_of, names):
        # It may be removed meanwhile.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            folders[name] = os.listdir(os.path.join(folder, name))
    return newest_first(folders)


def list_checkpoints(
    folder: str | os.PathLike[str], storage_options: dict[str, Any] | None = None
) -> list[StoredCheckpoint]:
    """Returns the published checkpoints of a folder or fsspec URL, beginning with the newest.

    storage_options: options that are passed to fsspec if `folder` is a URL. Raises NotFound (the
    folder does not exist), Unavailable, and Unimplemented (the package for the URL is not
    installed).
    """
    path = os.fspath(folder)
    if is_url(path):
        return newest_first(RemoteFolder(path, storage_options).list())
    if not os.path.isdir(path):
        raise NotFound(f"list checkpoints of '{path}': there is no such folder; check the path")
    return list_folder(path)


def parse_manifest(text: bytes, path: str) -> dict[str, Any]:
    try:
        manifest = json.loads(text)
        if manifest["format"] == "ffdl-checkpoint-1" and manifest["shards"]:
            return manifest  # type: ignore[no-any-return]
    except (ValueError, KeyError, TypeError):
        pass
    raise Corrupt(
        f"read manifest '{path}': it is no manifest of ffdl ({len(text)} bytes); restore the file")


def choose_removals(
    stored: list[StoredCheckpoint], keep_last: int, keep_best: int,
    metric_of: Callable[[StoredCheckpoint], float | None],
) -> list[StoredCheckpoint]:
    """Returns the checkpoints to remove from an object store, by keep_last and keep_best."""
    alike = [one for one in stored if one.job == stored[0].job]
    kept = set(alike[: max(keep_last, 1)])
    if keep_best > 0:
        measured = ((metric_of(one), one) for one in alike)
        known = [(m, one) for m, one in measured if m is not None and not math.isnan(m)]
        kept |= {one for _, one in sorted(known, key=lambda pair: pair[0])[:keep_best]}
    return [one for one in alike if one not in kept]
