"""Tests of `mainspring.egress`."""
