"""Reports of runs. ``ffdl report RUN`` draws throughput, stalls, staleness and loss.

A run writes its events as lines of JSON. In Python :class:`RunLog` writes these lines.
docs/guide/report.md describes the format. ``ffdl report`` needs matplotlib.
"""

from .run_log import RunLog

__all__ = ["RunLog"]
