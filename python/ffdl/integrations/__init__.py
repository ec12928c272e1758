"""Adapters for the trainers of other libraries. Each adapter needs its library."""
