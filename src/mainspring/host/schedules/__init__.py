"""Evaluation of schedules on every server, without a leader."""
