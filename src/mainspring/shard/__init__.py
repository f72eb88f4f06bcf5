"""One shard in memory, made of core's rules: events in, batch out. No I/O, no clock, no randomness of its own."""
