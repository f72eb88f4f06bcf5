"""Requests to addresses that somebody else names: webhooks of a server, and HTTP calls of tasks (SEC-5)."""
