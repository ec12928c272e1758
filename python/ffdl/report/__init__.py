"""Reports of a run: ``ffdl report RUN`` draws throughput, stalls, staleness and loss.

A run writes lines of JSON; :class:`RunLog` writes them from Python. docs/guide/report.md has the
format. Drawing needs matplotlib, and nothing else here does.
"""

from .run_log import RunLog

__all__ = ["RunLog"]
