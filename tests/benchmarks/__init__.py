"""Tests of what the benchmarks compute; what they measure is theirs alone."""
