"""What people ask of runs and tasks: cancel, pause, retry, reopen; and what the audit log says of it."""
