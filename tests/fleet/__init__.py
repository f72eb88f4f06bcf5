"""Tests of the fleet simulation."""
