"""Tests of the guard and of what it runs: real processes, real time."""
