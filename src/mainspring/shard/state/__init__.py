"""What a shard has in memory, all of it derivable from rows."""
