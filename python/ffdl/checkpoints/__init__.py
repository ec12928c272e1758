"""Checkpoints beyond their folder: their copies in object stores, and their list."""

from .folder import StoredCheckpoint, list_checkpoints
from .upload import CheckpointUpload

__all__ = ["CheckpointUpload", "StoredCheckpoint", "list_checkpoints"]
