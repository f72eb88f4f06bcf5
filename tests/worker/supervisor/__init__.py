"""Tests of the supervisor and its executors: real processes, real time."""
