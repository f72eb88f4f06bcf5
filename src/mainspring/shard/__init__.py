"""Shard: the in-memory scheduler of one pool. Events in, batch out; no I/O, clock or randomness of its own."""
