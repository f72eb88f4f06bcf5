"""The one expression engine: conditions on edges, and templates."""
