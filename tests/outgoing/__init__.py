"""Tests of `mainspring.outgoing`."""
