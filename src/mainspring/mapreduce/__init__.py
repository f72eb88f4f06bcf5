"""Runs map-reduces over items with an AI invoker, in a separate process (FLD-8)."""
