"""Remembers: one port, two adapters (PostgreSQL for servers, SQLite for one machine), no rules."""
