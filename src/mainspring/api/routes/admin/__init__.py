"""Routes for operators: audit, settings, tokens, webhooks, alerts, health."""
