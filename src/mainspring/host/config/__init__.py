"""What a server follows while it runs: settings, sharing rules, and limits of the cluster."""
