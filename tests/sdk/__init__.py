"""Tests of what users import."""
