"""Kinds of work that a task can do, and their definitions."""
