"""Copies of checkpoints in object stores, and lists of checkpoints."""

from .folder import StoredCheckpoint, list_checkpoints
from .upload import CheckpointUpload

__all__ = ["CheckpointUpload", "StoredCheckpoint", "list_checkpoints"]
