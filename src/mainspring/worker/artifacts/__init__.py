"""Artifacts of attempts: collect, store, fetch, expire."""
