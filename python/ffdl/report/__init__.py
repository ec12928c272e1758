"""Reports of runs. ``ffdl report RUN`` draws the throughput, stalls, staleness and loss.

A run writes its events to files, as lines of JSON. In Python, :class:`RunLog` writes the events of
a process to a file. docs/guide/report.md describes the format of the files. ``ffdl report`` needs
matplotlib.
"""

from .run_log import RunLog

__all__ = ["RunLog"]
