"""Commands for operators: audit, tokens, settings, webhooks, certificates."""
