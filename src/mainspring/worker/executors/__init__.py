"""One module per kind of work."""
