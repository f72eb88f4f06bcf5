"""Benchmarks. Each module prints its results as JSON, with the store's own limit measured in the same run."""
