"""Domain types: task, run, job, worker, batch, and the other rows of the store."""
