"""Tests of the HTTP API: the real application on a real store, asked as a client asks it."""
