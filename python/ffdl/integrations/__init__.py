"""Adapters for trainers of other libraries, which must be installed separately."""
