"""Tests of the probes and checks of `mainspring smoke`."""
