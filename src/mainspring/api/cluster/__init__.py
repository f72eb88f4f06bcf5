"""Servers that share a store: peers, and routing requests to the leader of a shard."""
