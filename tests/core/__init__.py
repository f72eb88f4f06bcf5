"""Tests of the rules: every pair of every table, and properties of computed values."""
