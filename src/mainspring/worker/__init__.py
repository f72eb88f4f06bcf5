"""Runs attempts: what a worker has in hands, and (so far) a worker that is played inside the server's process."""
