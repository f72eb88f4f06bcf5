"""The agent with a real guard, real processes, and a WebSocket server that the test plays."""
