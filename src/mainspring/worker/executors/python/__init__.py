"""Python functions, called in warm child processes."""
