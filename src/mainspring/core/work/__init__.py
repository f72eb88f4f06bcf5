"""The kinds of work that a task can do, and how each is declared."""
