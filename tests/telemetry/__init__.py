"""Metrics, traces and lineage events."""
