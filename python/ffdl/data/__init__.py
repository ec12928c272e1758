"""Loads samples for elastic training. Each step commits its samples together with its gradients.

:class:`ElasticLoader` replaces PyTorch's ``DataLoader`` and ``DistributedSampler``. The package
ffdl.data needs only NumPy, and also accepts PyTorch tensors.
"""

from .copies import local_copies
from .loader import ElasticLoader
from .loading import collate
from .several import Mixture, Part, mix, split
from .shards import IterableShards
from .tables import TableSource, open_arrow, open_parquet
from .windows import Windows, windows

__all__ = [
    "ElasticLoader",
    "IterableShards",
    "Mixture",
    "Part",
    "TableSource",
    "Windows",
    "collate",
    "local_copies",
    "mix",
    "open_arrow",
    "open_parquet",
    "split",
    "windows",
]
