"""Uploads the checkpoints in a folder to an object store during training."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from types import TracebackType
from typing import Any

from .._ffdl import CheckpointOptions
from ..errors import Conflict, Corrupt, Error, InvalidArgument, NotFound
from ..remote import RemoteFolder, call, folder_lock
from .folder import (
    LAYOUT_FILE,
    StoredCheckpoint,
    choose_removals,
    create_file,
    is_checkpoint_file,
    job_of,
    list_folder,
    mark_of,
    newest_first,
    parse_manifest,
)

_PATIENCE_MAX_S = 60.0


class CheckpointUpload:
    """Uploads the checkpoints of a folder to an object store during training.

    ::

        checkpoints = ffdl.CheckpointOptions("/scratch/line", every_steps=500, resume=True)
        with ffdl.CheckpointUpload(checkpoints, "s3://bucket/line"):
            trainer = ffdl.torch.elastic(model, optimizer, loader, checkpoints=checkpoints)
            ...

    The constructor downloads the newest published checkpoint from the URL, unless the folder
    already contains this checkpoint or a newer one. So a job with ``resume=True`` can also continue
    on a machine whose folder is empty. A background thread looks for new checkpoints in the folder,
    and uploads the newest published checkpoint. The end of the ``with`` block waits until the
    newest checkpoint is uploaded, and raises an error if this upload fails. If an exception ends
    the ``with`` block, the block does not wait for the upload. Create a CheckpointUpload in every
    worker. At any time, only one of the processes that share the folder uploads. If the uploading
    process dies, another process continues the uploads.

    options: the CheckpointOptions of the session. The staging folder is ``options.folder``.
    ``keep_last`` and ``keep_best`` limit the checkpoints in the folder, and also those at the URL.
    If ``skip_damaged`` is set, an incomplete copy at the URL is skipped.
    url: a URL that fsspec supports, such as s3://BUCKET/PATH. Only one job at a time may use the
    URL.
    interval_s: the seconds between two checks of the folder for new checkpoints.
    storage_options: options that are passed to fsspec with the URL.

    Raises InvalidArgument, Unavailable, Exhausted (a full disk), NotFound (the bucket does not
    exist) and Corrupt (a copy at the URL is incomplete). Raises Conflict if another job uploads to
    the URL. Raises Unimplemented if a package that fsspec needs for the URL is not installed.
    docs/guide/checkpoints.md describes uploads.
    """

    def __init__(
        self, options: CheckpointOptions, url: str, *, interval_s: float = 1.0,
        storage_options: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(options, CheckpointOptions):
            raise TypeError(
                f"upload checkpoints to '{url}': 'options' is of type {type(options).__name__}; "
                "give ffdl.CheckpointOptions(folder, ...)"
            )
        if not interval_s > 0:
            raise InvalidArgument(
                f"upload checkpoints to '{url}': interval_s is {interval_s}; give seconds > 0")
        self._options = options
        self._folder = options.folder
        self._remote = RemoteFolder(url, storage_options)
        self._interval_s = interval_s
        self._is_there = ""  # the newest of the folder, when that was at the URL
        self._failure: Error | None = None
        self._uploads = 0
        self._stop = threading.Event()
        try:
            os.makedirs(self._folder, exist_ok=True)
        except OSError as error:
            raise InvalidArgument(
                f"upload checkpoints of '{self._folder}': {error.strerror}; name a folder that can "
                "be created"
            ) from error
        with folder_lock(self._folder, waits=True):
            self._bring_newest()
        self._thread = threading.Thread(target=self._run, name="ffdl-upload", daemon=True)
        self._thread.start()

    @property
    def uploads(self) -> int:
        """The number of checkpoints that this process has uploaded."""
        return self._uploads

    def status(self) -> None:
        """Raises the error of the last upload if that upload failed. Failed uploads are retried."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Ends the upload thread after the newest checkpoint in the folder is uploaded."""
        self._stop.set()
        self._thread.join()
        while not self._try(waits=True):
            pass  # the session has removed that one for a newer one

    def __enter__(self) -> CheckpointUpload:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        self._stop.set()

    def _run(self) -> None:
        pause = self._interval_s
        while not self._stop.wait(pause):
            try:
                self._try(waits=False)
                self._failure = None
                pause = self._interval_s
            except Error as error:
                if str(error) != str(self._failure):
                    print(f"ffdl: {error}; the upload is retried", file=sys.stderr)
                self._failure = error
                pause = min(2 * pause, max(_PATIENCE_MAX_S, self._interval_s))

    def _try(self, *, waits: bool) -> bool:
        return call(f"upload checkpoints of '{self._folder}' to '{self._remote.url}'",
                    lambda: self._upload_newest(waits=waits))

    def _upload_newest(self, *, waits: bool) -> bool:
        """Uploads the newest checkpoint. Returns False if the session removed that checkpoint."""
        stored = list_folder(self._folder)
        if not stored or stored[0].name == self._is_there:
            return True
        with folder_lock(self._folder, waits=waits) as is_held:
            if not is_held:
                return True
            newest = stored[0]
            remote = newest_first(self._remote.list())
            if newest.name not in (one.name for one in remote):
                if remote and remote[0].number >= newest.number:
                    raise Conflict(
                        f"upload checkpoint '{newest.name}' to '{self._remote.url}': "
                        f"another process uploaded '{remote[0].name}'; use a URL for only one job "
                        "at a time"
                    )
                if not self._upload(newest):
                    return False
                self._uploads += 1
                self._remove_old()
            self._is_there = newest.name
            return True

    def _upload(self, one: StoredCheckpoint) -> bool:
        """Uploads a checkpoint through hard links, so that the session may remove its files."""
        stage = os.path.join(self._folder, "uploading")
        shutil.rmtree(stage, ignore_errors=True)
        try:
            source = os.path.join(self._folder, one.name)
            sizes = _stage(source, one.manifest, stage)
            if sizes is None:
                return False
            for file in sizes:
                self._remote.upload(os.path.join(stage, file), f"{one.name}/{file}")
            layout = os.path.join(self._folder, LAYOUT_FILE)
            if os.path.exists(layout):
                self._remote.upload(layout, LAYOUT_FILE)
            self._expect_sizes(one.name, sizes)
            # The mark comes last: without it the rest does not count.
            self._remote.write(f"{one.name}/{one.mark}", b"")
        finally:
            shutil.rmtree(stage, ignore_errors=True)
        return True

    def _expect_sizes(self, name: str, sizes: dict[str, int]) -> None:
        found = self._remote.list().get(name, {})
        for file, size in sizes.items():
            if found.get(file) != size:
                raise Corrupt(
                    f"upload '{self._remote.url}/{name}/{file}': {found.get(file)} of {size} "
                    "bytes arrived; let no other process write there"
                )

    def _remove_old(self) -> None:
        folders = self._remote.list()
        stored = newest_first(folders)
        job = stored[0].job
        old = {one.name for one in choose_removals(
            stored, self._options.keep_last, self._options.keep_best, self._metric)}
        # Folders without a mark are uploads that were not completed.
        complete = {one.name for one in stored}
        old |= {name for name in folders if job_of(name) == job and name not in complete}
        for name in sorted(old):
            files = filter(is_checkpoint_file, folders[name])
            # The mark goes first, so that no reader takes the rest for a whole checkpoint.
            for file in sorted(files, key=lambda file: not file.startswith("published-")):
                self._remote.remove(f"{name}/{file}")
            self._remote.remove_empty(name)

    def _metric(self, one: StoredCheckpoint) -> float | None:
        path = f"{one.name}/{one.manifest}"
        try:
            return parse_manifest(self._remote.read(path), path).get("metric")
        except (Corrupt, NotFound):
            return None

    def _bring_newest(self) -> None:
        local = list_folder(self._folder)
        last = local[0].number if local else -1
        for one in newest_first(self._remote.list()):
            if one.number < last or one.name in (here.name for here in local):
                return
            try:
                number = max(one.number, last + 1)
                call(f"download '{self._remote.url}/{one.name}' to '{self._folder}'",
                     lambda: self._download(one, number))  # noqa: B023  # called at once
                return
            except Corrupt as error:
                if not self._options.skip_damaged:
                    raise
                print(f"ffdl: {error}; the next older one is tried", file=sys.stderr)

    def _download(self, one: StoredCheckpoint, number: int) -> None:
        """Downloads a checkpoint into a temporary folder, and renames the folder at the end."""
        stage = os.path.join(self._folder, "downloading")
        shutil.rmtree(stage, ignore_errors=True)
        os.makedirs(stage)
        try:
            path = f"{one.name}/{one.manifest}"
            try:
                text = self._remote.read(path)
                manifest = parse_manifest(text, f"{self._remote.url}/{path}")
                _write(os.path.join(stage, one.manifest), text)
                for shard in manifest["shards"]:
                    self._download_shard(one.name, shard["file"], shard["bytes"], stage)
            except NotFound as error:
                raise Corrupt(f"{error}; or set skip_damaged to take an older one") from error
            with contextlib.suppress(NotFound):
                layout = self._remote.read(LAYOUT_FILE)
                _write(os.path.join(self._folder, LAYOUT_FILE), layout)
            _write(os.path.join(stage, mark_of(number, one.manifest)), b"")
            _sync(stage)
            target = os.path.join(self._folder, one.name)
            shutil.rmtree(target, ignore_errors=True)  # an unpublished rest of the same state
            os.rename(stage, target)
            _sync(self._folder)
        finally:
            shutil.rmtree(stage, ignore_errors=True)

    def _download_shard(self, name: str, file: str, size: int, stage: str) -> None:
        path = os.path.join(stage, os.path.basename(file))
        self._remote.download(f"{name}/{file}", path)
        if os.path.getsize(path) != size:
            raise Corrupt(
                f"download '{self._remote.url}/{name}/{file}': {os.path.getsize(path)} bytes, but "
                f"its manifest has {size}; restore it, or set skip_damaged to take an older "
                "one"
            )
        _sync(path)


def _stage(folder: str, manifest: str, stage: str) -> dict[str, int] | None:
    """Hard-links a checkpoint's files. Returns their sizes, or None if the checkpoint is gone."""
    os.makedirs(stage)
    try:
        with open(os.path.join(folder, manifest), "rb") as file:
            shards = parse_manifest(file.read(), file.name)["shards"]
        names = [*(shard["file"] for shard in shards), manifest]
        for name in names:
            source, link = os.path.join(folder, name), os.path.join(stage, name)
            if not os.path.exists(source):  # a member died while it discarded the shard
                source += ".unfinished"
            try:
                os.link(source, link)
            except FileNotFoundError:
                raise
            except OSError:  # no file system links everywhere
                shutil.copyfile(source, link)
    except FileNotFoundError:
        return None
    return {name: os.path.getsize(os.path.join(stage, name)) for name in names}


def _write(path: str, content: bytes) -> None:
    with create_file(path) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
