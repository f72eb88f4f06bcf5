"""What a worker decides, and the worker that is played."""
