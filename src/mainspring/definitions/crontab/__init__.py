"""Import of crontabs."""
