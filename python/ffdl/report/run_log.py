"""Writes the events of a run as lines of JSON, which `ffdl report` reads."""

from __future__ import annotations

import json
import math
import os
import pathlib
import time
from typing import Any

from .._ffdl import job_environment


class RunLog:
    """Writes the events of one process of a run to a file, as lines of JSON.

    ::

        log = ffdl.report.RunLog("run")  # run/worker-0.jsonl under `ffdl run`
        log.write("step", step=session.step, samples=len(x), loss=loss, workers=session.world.size)

    folder: the folder of all processes of the run. RunLog creates a missing folder.
    name: the name of the process. None: the worker's id if `ffdl run` started this process,
    otherwise ``process-PID``.

    If the file exists, RunLog appends lines. When write() returns, the line has been passed to the
    operating system. NaN and infinities are written as null, because JSON cannot represent them.
    Threads: one thread at a time. Raises OSError.
    """

    def __init__(self, folder: str | os.PathLike[str], name: str | None = None) -> None:
        environment = job_environment()
        self.name = name or (environment.worker_id if environment else f"process-{os.getpid()}")
        path = pathlib.Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        self._file = (path / f"{self.name}.jsonl").open("a", encoding="utf-8")

    def write(self, event: str, **fields: Any) -> None:
        """Writes one event. The field ``t_s`` is the time in seconds, by the clock of the host."""
        line = {"event": event, "t_s": round(time.time(), 4), "worker": self.name, **fields}
        plain = {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in line.items()
        }
        self._file.write(json.dumps(plain) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Closes the file. All lines have already been written."""
        self._file.close()

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
