"""Placement: dispatch, fair share, gates, limits, reservations, preemption."""
