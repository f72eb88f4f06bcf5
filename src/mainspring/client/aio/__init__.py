"""The asyncio client. The blocking client in the parent package is generated from it."""
