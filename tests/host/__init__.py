"""The loop, leases, intake, links, outbox and sweeps, on a SQLite in memory and a loop whose time is virtual."""
