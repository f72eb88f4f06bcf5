"""One suite for all stores, written from the docstrings of `store/ports/store.py`, and what is special to each adapter."""
