"""Executors: one module per kind of work."""
