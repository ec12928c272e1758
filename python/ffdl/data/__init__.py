"""Samples for elastic training: which ones a worker uses is committed together with its gradients.

:class:`ElasticLoader` takes the place of PyTorch's ``DataLoader`` and ``DistributedSampler``. It
needs NumPy alone, and knows tensors where they come.
"""

from .loader import ElasticLoader
from .loading import collate
from .shards import IterableShards

__all__ = ["ElasticLoader", "IterableShards", "collate"]
