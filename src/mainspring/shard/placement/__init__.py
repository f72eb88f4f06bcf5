"""Dispatch: fair share, gates, limits, reservations, preemption."""
