"""Logs a worker's commits if `ffdl run` has the option `--ledger-log FOLDER`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from .._ffdl import CommitLog, CommittedStep, job_environment

_OnStable = Callable[[CommittedStep], object]

_numbers = itertools.count()  # number of the logged ledgers of this process


def logged(on_stable: _OnStable | None, **options: Any) -> _OnStable | None:
    """Returns a function that logs a commit, and then calls `on_stable`.

    If `ffdl run` has no option `--ledger-log`, returns `on_stable` itself. The worker with the id
    ID logs its first ledger in ID.commits, and its second ledger in ID.commits-1. Each ledger has
    its own file, because an audit reads the logs of only one data set. A restarted worker appends
    to its earlier files.

    options: passed to CommitLog.open(). Raises Unavailable.
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
