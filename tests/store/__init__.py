"""One suite for all stores, written from the docstrings of `store.py`, and what is special to each adapter."""
