"""Progress of runs and tasks: adoption, readiness, fan-out, timeouts, deadlines."""
