"""The engine inside the user's own process: shard, host and store in memory, and a worker that calls the functions."""
