"""Adapters for the trainers of other libraries. ffdl does not install the libraries."""
