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
    name: the name of the process, and of its file. By default, `name` is the worker's id if `ffdl
    run` started this process, otherwise ``process-PID``.

    If the file exists, RunLog appends lines. When write() returns, the operating system has the
    line, so a kill of the process does not lose the line. NaN and infinities are written as null,
    because JSON has no such numbers.
    Threads: one thread at a time may use a RunLog. Raises OSError.
    """

    def __init__(self, folder: str | os.PathLike[str], name: str | None = None) -> None:
        environment = job_environment()
        self.name = name or (environment.worker_id if environment else f"process-{os.getpid()}")
        path = pathlib.Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        self._file = (path / f"{self.name}.jsonl").open("a", encoding="utf-8")

    def write(self, event: str, **fields: Any) -> None:
        """Writes one event, with the time in seconds by the host's clock in the field ``t_s``."""
        line = {"event": event, "t_s": round(time.time(), 4), "worker": self.name, **fields}
        plain = {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in line.items()
        }
        self._file.write(json.dumps(plain) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Closes the file. All lines are already in the file."""
        self._file.close()

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
