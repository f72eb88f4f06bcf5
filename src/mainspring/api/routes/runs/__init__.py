"""Routes of runs, tasks, attempts, and why they wait."""
