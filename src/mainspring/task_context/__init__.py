"""The context of a running task."""
