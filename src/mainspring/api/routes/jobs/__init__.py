"""Routes of jobs, schedules, and received events."""
