"""Tests of the capacity simulator."""
