"""Alert channels: webhook, email, and all services of apprise. Each sends a `Notice`, or raises."""
