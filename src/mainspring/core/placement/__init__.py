"""Placement: which worker takes a task.

Feasibility and scoring: `feasibility`. Shapes of tasks: `task_shapes`. Index of workers by free capacity:
`worker_index`, `capacity_cells`. Preemption: `preemption_policy`.
"""
