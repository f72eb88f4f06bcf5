"""What others see of a server from outside: numbers for Prometheus, spans for OpenTelemetry, events for OpenLineage."""
