"""Administration commands: audit log, tokens, settings, webhooks, certificates."""
