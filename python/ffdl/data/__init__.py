"""Samples for elastic training: which ones a worker uses is committed together with its gradients.

:class:`ElasticLoader` takes the place of PyTorch's ``DataLoader`` and ``DistributedSampler``. It
needs NumPy alone, and knows tensors where they come.
"""

from .loader import ElasticLoader
from .loading import collate
from .shards import IterableShards
from .tables import TableSource, open_arrow, open_parquet

__all__ = [
    "ElasticLoader",
    "IterableShards",
    "TableSource",
    "collate",
    "open_arrow",
    "open_parquet",
]
