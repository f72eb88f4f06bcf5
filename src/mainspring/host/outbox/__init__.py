"""Delivery of committed messages to the outside: outbox rows, alerts, webhooks."""
