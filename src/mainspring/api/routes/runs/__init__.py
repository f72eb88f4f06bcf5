"""Routes of runs, tasks, attempts, and diagnosis."""
