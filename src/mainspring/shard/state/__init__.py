"""State of a shard in memory, all of it derived from rows."""
