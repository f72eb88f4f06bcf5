"""From a request to rows of intake: validation, the gate, rate limits, idempotency, group commit."""
