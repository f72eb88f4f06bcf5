"""The client of the HTTP API: `aio/` for asyncio, and the blocking client generated from it."""
