"""Several servers of one store: who they are, and how a request reaches the leader of a shard."""
