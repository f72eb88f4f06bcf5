"""Events in, batch out, in virtual time: a shard without a store, a host or a network."""
