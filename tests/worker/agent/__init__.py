"""Tests of the agent with a real supervisor, real processes, and a fake WebSocket server."""
