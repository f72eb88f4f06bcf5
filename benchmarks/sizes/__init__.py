"""Growth of cost with the number of queued tasks, tenants, workers and history rows."""
