"""Samples for elastic training: which ones a worker uses is committed together with its gradients.

:class:`ElasticLoader` takes the place of PyTorch's ``DataLoader`` and ``DistributedSampler``. It
needs NumPy alone, and knows tensors where they come.
"""

from .loader import ElasticLoader
from .loading import collate
from .several import Mixture, Part, mix, split
from .shards import IterableShards
from .tables import TableSource, open_arrow, open_parquet

__all__ = [
    "ElasticLoader",
    "IterableShards",
    "Mixture",
    "Part",
    "TableSource",
    "collate",
    "mix",
    "open_arrow",
    "open_parquet",
    "split",
]
