"""Periodic maintenance of the store: pruning and archiving, sealing the audit log, watching for silent workers."""
