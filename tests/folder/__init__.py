"""Tests of folders: discovery, reconciliation, state files, lock."""
