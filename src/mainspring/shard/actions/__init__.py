"""Actions on runs and tasks (cancel, pause, retry, reopen), and their audit entries."""
