"""Workers of a shard: liveness, cordon, reports, claims over HTTP."""
