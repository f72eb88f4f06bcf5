"""The client of the HTTP API: `aio/` for programs with an event loop, and the blocking one made from it."""
