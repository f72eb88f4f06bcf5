"""Actions on runs and tasks."""
