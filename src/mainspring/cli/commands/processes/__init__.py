"""Long-running processes: server, worker, up."""
