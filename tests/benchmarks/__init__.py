"""Tests of the computations of the benchmarks."""
