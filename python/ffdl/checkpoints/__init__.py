"""Copies checkpoints to object stores, and lists checkpoints."""

from .folder import StoredCheckpoint, list_checkpoints
from .upload import CheckpointUpload

__all__ = ["CheckpointUpload", "StoredCheckpoint", "list_checkpoints"]
