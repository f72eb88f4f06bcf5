"""Telemetry of a server: metrics for Prometheus, traces for OpenTelemetry, events for OpenLineage, logs."""
