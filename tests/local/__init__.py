"""Tests of the engine inside the user's own process."""
