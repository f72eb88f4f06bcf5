"""What may come in: validation of jobs and runs, intake, backpressure. Every fault is named."""
