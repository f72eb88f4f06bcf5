"""Tests of the in-process engine."""
