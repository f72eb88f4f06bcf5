"""Commands on jobs, runs and tasks."""
