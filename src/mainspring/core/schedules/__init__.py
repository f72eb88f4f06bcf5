"""When a schedule fires, and what becomes of each window."""
