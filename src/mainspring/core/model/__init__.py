"""The plain types: task, run, job, worker, batch, and the other rows that a store keeps."""
