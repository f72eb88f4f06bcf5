"""Runs shards: the loop from events to committed batches, leases, intake, worker links, maintenance, outbox."""
