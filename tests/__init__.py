"""All tests, sorted by how far they are from the metal: core, shard, store, host, sim, cli."""
