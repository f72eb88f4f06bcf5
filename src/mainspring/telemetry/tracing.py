"""Exporter for OpenTelemetry (extra `otel`): spans and metrics by the CI/CD conventions.

    RUN etl                    from submission to the end                     cicd.pipeline.*
    ├ queued                   from the planned start to the first start
    └ extract                  an attempt, from its start to its end          cicd.pipeline.task.*, cicd.worker.*

Spans are exported when they end, with the ids of `core/model/trace_ids.py`, so that spans of a task with TRACEPARENT
belong to them. Attribute names are in NAMES only, as the conventions still change.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from mainspring.core.model.run import RunState
from mainspring.core.model.task import AttemptEnd
from mainspring.core.model.trace_ids import span_of, trace_of
from mainspring.telemetry.run_events import AttemptFinished, RunEnded, RunStarted, TelemetryEvent

NAMES = {
    "job": "cicd.pipeline.name",
    "run": "cicd.pipeline.run.id",
    "result": "cicd.pipeline.result",
    "task": "cicd.pipeline.task.name",
    "task_run": "cicd.pipeline.task.run.id",
    "task_result": "cicd.pipeline.task.run.result",
    "worker": "cicd.worker.id",
    "tenant": "mainspring.tenant",
    "attempt": "mainspring.attempt",
}
_RUN_RESULTS = {
    RunState.SUCCEEDED: "success",
    RunState.PARTIAL: "success",
    RunState.FAILED: "failure",
    RunState.TIMED_OUT: "timeout",
    RunState.CANCELLED: "cancellation",
}
_ATTEMPT_RESULTS = {
    AttemptEnd.SUCCEEDED: "success",
    AttemptEnd.TIMED_OUT: "timeout",
    AttemptEnd.STOPPED: "cancellation",
    AttemptEnd.LOST: "error",
}
_FAILED = frozenset({"failure", "timeout", "error"})


class Tracer:
    """Exports to a collector, by OTLP over HTTP."""

    def __init__(self, endpoint: str, *, server: str, version: str) -> None:
        """`endpoint` is the URL of the collector, such as `http://127.0.0.1:4318`."""
        resource = Resource.create(
            {"service.name": "mainspring", "service.version": version, "service.instance.id": server}
        )
        base = endpoint.rstrip("/")
        self._ids = _FixedIdGenerator()
        self._spans = TracerProvider(resource=resource, id_generator=self._ids)
        self._spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{base}/v1/traces")))
        self._tracer = self._spans.get_tracer("mainspring", version)
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=f"{base}/v1/metrics"))
        self._numbers = MeterProvider(resource=resource, metric_readers=[reader])
        meter = self._numbers.get_meter("mainspring", version)
        self._durations = meter.create_histogram("cicd.pipeline.run.duration", "s", "Duration of runs.")
        self._active = meter.create_up_down_counter("cicd.pipeline.run.active", "{run}", "Active runs.")
        self._errors = meter.create_counter("cicd.pipeline.run.errors", "{error}", "Runs that did not succeed.")

    def export(self, events: Sequence[TelemetryEvent]) -> None:
        """Create spans of ended runs and attempts."""
        for event in events:
            match event:
                case RunStarted():
                    self._active.add(1, {NAMES["job"]: event.job})
                case AttemptFinished():
                    self._attempt(event)
                case RunEnded():
                    self._run(event)

    def close(self) -> None:
        """Flush and close."""
        self._spans.shutdown()
        self._numbers.shutdown()

    def _attempt(self, finished: AttemptFinished) -> None:
        attempt = finished.attempt
        if attempt.started_at is None:
            return
        result = _ATTEMPT_RESULTS.get(attempt.end, "failure")
        attributes: dict[str, str | int] = {
            NAMES["job"]: finished.job,
            NAMES["run"]: attempt.run_id,
            NAMES["task"]: finished.task,
            NAMES["task_run"]: attempt.id,
            NAMES["task_result"]: result,
            NAMES["worker"]: attempt.worker_id,
            NAMES["tenant"]: attempt.tenant,
            NAMES["attempt"]: attempt.number,
        }
        self._span(
            finished.task, attempt.run_id, span_of(attempt.id), attributes, attempt.started_at, attempt.ended_at,
            result,
            parent=span_of(attempt.run_id),
        )  # fmt: skip

    def _run(self, ended: RunEnded) -> None:
        run = ended.run
        if run.ended_at is None:
            return
        result = _RUN_RESULTS[run.state]
        attributes: dict[str, str | int] = {
            NAMES["job"]: ended.job, NAMES["run"]: run.id, NAMES["result"]: result, NAMES["tenant"]: run.tenant,
        }  # fmt: skip
        if run.started_at is not None:
            self._span(
                "queued", run.id, span_of(f"{run.id}:queued"), attributes, run.start_at, run.started_at, "success",
                parent=span_of(run.id),
            )  # fmt: skip
        self._span(
            f"RUN {ended.job}", run.id, span_of(run.id), attributes, run.created_at, run.ended_at, result,
            kind=SpanKind.SERVER,
        )  # fmt: skip
        labels = {NAMES["job"]: ended.job, NAMES["result"]: result}
        self._active.add(-1, {NAMES["job"]: ended.job})
        self._durations.record((run.ended_at - (run.started_at or run.start_at)).total_seconds(), labels)
        if result in _FAILED:
            self._errors.add(1, labels)

    def _span(
        self, name: str, run_id: str, span_id: int, attributes: dict[str, str | int], start: datetime, end: datetime,
        result: str, *, parent: int | None = None, kind: SpanKind = SpanKind.INTERNAL,
    ) -> None:  # fmt: skip
        trace = trace_of(run_id)
        self._ids.set_next(trace, span_id)
        context = None
        if parent is not None:
            parent_context = SpanContext(trace, parent, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
            context = set_span_in_context(NonRecordingSpan(parent_context))
        span = self._tracer.start_span(name, context, kind, attributes, start_time=_nanoseconds(start))
        if result in _FAILED:
            span.set_status(Status(StatusCode.ERROR, result))
        span.end(_nanoseconds(max(start, end)))


class _FixedIdGenerator(IdGenerator):
    """Gives the next span predefined ids. For one thread."""

    def __init__(self) -> None:
        self._trace = self._span = 0

    def set_next(self, trace: int, span: int) -> None:
        """Set the ids of the next span."""
        self._trace, self._span = trace, span

    def generate_span_id(self) -> int:
        """Return the span id."""
        return self._span

    def generate_trace_id(self) -> int:
        """Return the trace id."""
        return self._trace


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1_000
