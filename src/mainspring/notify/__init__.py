"""Channels of alerts: webhook, email, and whatever apprise speaks. Each sends a `Notice`, or raises."""
