"""Learners on one host that share a model."""
