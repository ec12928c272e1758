"""Learners of one host that share their weights."""
