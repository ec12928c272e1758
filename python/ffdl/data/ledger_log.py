"""The logs of what workers commit, where `ffdl run --ledger-log FOLDER` asks for them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from .._ffdl import CommitLog, CommittedStep, job_environment

_OnStable = Callable[[CommittedStep], object]

_numbers = itertools.count()  # of the ledgers of this process that are logged


def logged(on_stable: _OnStable | None, **options: Any) -> _OnStable | None:
    """`on_stable` of a ledger, which also tells this worker's log, where there is to be one.

    A worker's first ledger has the file ID.commits, the next one ID.commits-1, as logs are audited
    that are of one data set. A new life goes on with the files of the last.
    options: of CommitLog.open(). Raises Unavailable.
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
