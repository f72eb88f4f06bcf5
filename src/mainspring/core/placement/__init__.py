"""Which worker takes a task: feasibility, the index of workers, and whom to preempt."""
