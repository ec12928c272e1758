"""Adapters for trainers of others; each needs the package that it is named after."""
