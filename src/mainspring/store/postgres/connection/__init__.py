"""Connections to PostgreSQL: setup, deadlines, errors, wakeups."""
