"""Exporter for OpenLineage (extra `lineage`): START for each run, then COMPLETE, FAIL or ABORT.

The namespace is installation and tenant, `mainspring/acme`; the run id is a UUID derived from ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import Job, Run, RunEvent
from openlineage.client.facet_v2 import (
    JobFacet,
    RunFacet,
    error_message_run,
    job_type_job,
    nominal_time_run,
    parent_run,
    processing_engine_run,
)
from openlineage.client.generated.base import EventType
from openlineage.client.transport.http import HttpConfig, HttpTransport

from mainspring.core.model import run as runs
from mainspring.core.model.run import RunState
from mainspring.core.model.trace_ids import uuid_text
from mainspring.telemetry.run_events import AttemptFinished, RunEnded, RunStarted, TelemetryEvent

_ENDS = {
    RunState.SUCCEEDED: EventType.COMPLETE,
    RunState.PARTIAL: EventType.COMPLETE,
    RunState.FAILED: EventType.FAIL,
    RunState.TIMED_OUT: EventType.FAIL,
    RunState.CANCELLED: EventType.ABORT,
}


class Lineage:
    """Sends lineage events over HTTP."""

    def __init__(self, url: str, *, instance: str, version: str) -> None:
        """`url` is the base URL of the receiver: events go to its `/api/v1/lineage`."""
        self._client = OpenLineageClient(transport=HttpTransport(HttpConfig(url=url, timeout=5.0)))
        self._instance = instance
        self._version = version

    def export(self, events: Sequence[TelemetryEvent]) -> None:
        """Send an event for each start and end of a run."""
        for event in events:
            match event:
                case RunStarted():
                    started_at = event.run.adopted_at or event.run.created_at
                    self._client.emit(self._event(EventType.START, event.run, event.job, started_at))
                case RunEnded() if event.run.ended_at is not None:
                    self._client.emit(self._event(_ENDS[event.run.state], event.run, event.job, event.run.ended_at))
                case AttemptFinished() | RunEnded():
                    pass

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _event(self, kind: EventType, run: runs.Run, job: str, at: datetime) -> RunEvent:
        namespace = f"{self._instance}/{run.tenant}"
        facets: dict[str, RunFacet] = {
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
                version=self._version, name="mainspring"
            ),
            "nominalTime": nominal_time_run.NominalTimeRunFacet((run.window_at or run.start_at).isoformat()),
        }
        if run.linked_run is not None:
            facets["parent"] = parent_run.ParentRunFacet(
                parent_run.Run(uuid_text(run.linked_run)), parent_run.Job(namespace, job)
            )
        if kind is EventType.FAIL:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(run.because, "python")
        of_job: dict[str, JobFacet] = {"jobType": job_type_job.JobTypeJobFacet("BATCH", "MAINSPRING", "JOB")}
        return RunEvent(
            eventTime=at.isoformat(),
            producer=f"urn:mainspring:{self._version}",
            eventType=kind,
            run=Run(uuid_text(run.id), facets),
            job=Job(namespace, job, of_job),
        )
