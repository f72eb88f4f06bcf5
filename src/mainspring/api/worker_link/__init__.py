"""The connection of a worker: the WebSocket link, HTTP claims, and enrollment."""
