"""Logs of attempts: capture, mask, ship."""
