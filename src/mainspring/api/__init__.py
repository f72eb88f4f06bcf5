"""Speaks HTTP: routes, who may do what, the link of the workers, the live stream."""
