"""Numbers, spans and events for those who watch from outside."""
