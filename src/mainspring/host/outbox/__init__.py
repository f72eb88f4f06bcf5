"""Delivery of what is committed to the outside: outbox rows, alerts, webhooks."""
