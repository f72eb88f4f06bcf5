"""Requests to user-supplied URLs: webhooks of a server, and HTTP calls of tasks (SEC-5)."""
