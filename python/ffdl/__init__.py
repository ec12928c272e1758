"""Elastic distributed training: today a shared-memory parameter server for one host.

The names are those of the C++ headers; weights and gradients are NumPy arrays of float32 that share
the server's memory. Failures are exceptions of :mod:`ffdl.errors`. Times are seconds.
"""

from . import errors
from ._ffdl import (
    AveragingLearner,
    AveragingStats,
    Decay,
    GradientType,
    Learner,
    LearnerProgress,
    LearnerStats,
    LearningRateSchedule,
    MemoryPlacement,
    NonFinite,
    ParameterServer,
    ParameterServerCut,
    ParameterServerStats,
    ParameterServerView,
    PartitionProgress,
    Placement,
    Pulled,
    PullMode,
    PushResult,
    SampleRange,
    SegmentInfo,
    Synchrony,
    UpdateRuleOptions,
    __version__,
    list_segments,
    remove_segment,
    schedule_factor,
)
from .errors import *  # noqa: F403  # the exceptions are public names of the package too

__all__ = [
    "AveragingLearner",
    "AveragingStats",
    "Decay",
    "GradientType",
    "Learner",
    "LearnerProgress",
    "LearnerStats",
    "LearningRateSchedule",
    "MemoryPlacement",
    "NonFinite",
    "ParameterServer",
    "ParameterServerCut",
    "ParameterServerStats",
    "ParameterServerView",
    "PartitionProgress",
    "Placement",
    "PullMode",
    "Pulled",
    "PushResult",
    "SampleRange",
    "SegmentInfo",
    "Synchrony",
    "UpdateRuleOptions",
    "__version__",
    "errors",
    "list_segments",
    "remove_segment",
    "schedule_factor",
    *errors.__all__,
]
