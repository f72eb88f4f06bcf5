"""Tests of what `mainspring smoke` asks for, and of how it judges what became of it."""
