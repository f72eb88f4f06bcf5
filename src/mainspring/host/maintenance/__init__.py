"""Periodic work on the store: sweeping, sealing the audit log, watching for silent workers."""
