"""Logs of attempts: received from workers, kept as files, read from any server."""
