"""Output of commands: tables, details, logs and live views."""
