"""Carries out map-reduce over items with an AI invoker, in a process of its own (FLD-8)."""
