"""PyTorch with ffdl. Needs PyTorch; nothing here is compiled against it."""

from .elastic import Elastic, elastic

__all__ = ["Elastic", "elastic"]
