"""Creates the telemetry exporters of a server. Their dependencies come with extras, and are imported on demand."""

from __future__ import annotations

from importlib import import_module

from mainspring.protocol.errors import Refused
from mainspring.telemetry.run_events import Exporter


def make_exporters(*, otlp: str | None, lineage: str | None, server: str, version: str) -> list[Exporter]:
    """Create the exporters that have an address. Raises Refused for a missing extra."""
    exporters: list[Exporter] = []
    if otlp:
        _require("opentelemetry.sdk", "--otlp", "otel")
        from mainspring.telemetry.tracing import Tracer

        exporters.append(Tracer(otlp, server=server, version=version))
    if lineage:
        _require("openlineage.client", "--lineage", "lineage")
        from mainspring.telemetry.lineage import Lineage

        exporters.append(Lineage(lineage, instance="mainspring", version=version))
    return exporters


def _require(module: str, option: str, extra: str) -> None:
    try:
        import_module(module)
    except ModuleNotFoundError:
        raise Refused(
            f"{option} requires the extra {extra}\nhint: pip install 'mainspring[{extra}]'",
            reason="missing_extra",
        ) from None
