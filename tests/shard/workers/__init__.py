"""Workers of a shard: liveness, cordon, claims."""
