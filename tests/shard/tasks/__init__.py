"""Progress of runs and tasks."""
