"""Acts: the loop that turns events into batches and lets the effects out, leases, intake, links, sweeps, outbox."""
