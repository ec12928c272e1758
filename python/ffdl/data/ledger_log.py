"""Logs the workers' commits, if `ffdl run --ledger-log FOLDER` requests it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from .._ffdl import CommitLog, CommittedStep, job_environment

_OnStable = Callable[[CommittedStep], object]

_numbers = itertools.count()  # number of the logged ledgers of this process


def logged(on_stable: _OnStable | None, **options: Any) -> _OnStable | None:
    """Returns a ledger's `on_stable` that also writes this worker's log, if a log is requested.

    A worker's first ledger has the file ID.commits, and its next ledger ID.commits-1. The files
    differ because an audit reads the logs of one data set. The worker's next incarnation appends to
    the same files.

    options: options of CommitLog.open(). Raises Unavailable.
    """
    environment = job_environment()
    if environment is None or not environment.ledger_log:
        return on_stable
    number = next(_numbers)
    kind = f"commits-{number}" if number else "commits"
    log = CommitLog.open(f"{environment.ledger_log}/{environment.worker_id}.{kind}", **options)

    def tell(step: CommittedStep) -> None:
        log.write(step)
        if on_stable is not None:
            on_stable(step)

    return tell
