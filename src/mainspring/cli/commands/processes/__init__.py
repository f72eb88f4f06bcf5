"""Commands that are long-lived processes: server, worker, up."""
