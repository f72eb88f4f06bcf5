"""Routes of jobs, schedules, and events from outside."""
