"""Runs attempts: an agent that talks to the server, and a guard that is the parent of all that runs."""
