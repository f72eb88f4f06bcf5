"""Real processes on a real PostgreSQL."""
