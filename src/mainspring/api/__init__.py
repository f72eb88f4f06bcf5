"""HTTP API: routes, authentication and permissions, worker link, live stream."""
