"""State of a shard in memory."""
