"""Measurements. Each module prints its figures as JSON, with the store's own limit in the same run."""
