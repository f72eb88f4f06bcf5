"""The loop, leases, intake, links, outbox and maintenance, on an in-memory SQLite store and virtual time."""
