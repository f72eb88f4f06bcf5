"""What a task knows of itself while it runs."""
