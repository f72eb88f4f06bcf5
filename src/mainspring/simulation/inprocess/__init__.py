"""In-process engine: shard, host and store in memory, and a worker that calls functions."""
