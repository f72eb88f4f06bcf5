"""What webhooks are told: how runs end, as CloudEvents 1.0 in JSON.

{"specversion": "1.0", "id": "msg_..", "source": "/tenants/acme", "type": "dev.mainspring.run.failed.v1",
 "subject": "run_..", "time": "..", "datacontenttype": "application/json", "data": {..}}
"""

from __future__ import annotations

import hashlib
from datetime import datetime

import msgspec

from mainspring.core.runs import FINAL_RUN, Run, RunState

EVENTS = tuple(f"run.{state.lower()}" for state in sorted(FINAL_RUN))
"""What one can want to hear of: `run.cancelled`, `run.failed`, `run.partial`, `run.succeeded`, `run.timed_out`."""
TEST = "webhook.test"
"""What is sent when somebody wants to see whether it arrives."""


class RunNews(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run, as it is told."""

    run_id: str
    tenant: str
    job: str
    job_version: int
    state: str
    because: str
    priority: str
    generation: int
    schedule_id: str | None
    window_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    retries: int


class CloudEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One message."""

    specversion: str = "1.0"
    id: str
    source: str
    type: str
    subject: str
    time: datetime
    datacontenttype: str = "application/json"
    data: msgspec.Raw
    """JSON: a `RunNews` for the end of a run."""


def event_of(state: RunState) -> str:
    """The name under which the end of a run is asked for."""
    return f"run.{state.lower()}"


def is_wanted(events: tuple[str, ...], job: str, *, state: RunState, job_name: str) -> bool:
    """Whether a webhook that wants these events of this job (of any, if it is empty) wants to hear of such an end."""
    return (not events or event_of(state) in events) and job in {"", job_name}


def message_id(webhook_id: str, run_id: str, generation: int) -> str:
    """The same for the same end of a run: whoever gets it twice knows it."""
    return f"msg_{hashlib.sha256(f'{webhook_id} {run_id} {generation}'.encode()).hexdigest()[:32]}"


def tell_end(id: str, run: Run, *, job: str, job_version: int, at: datetime) -> CloudEvent:
    """The message about the end of a run."""
    news = RunNews(
        run_id=run.id, tenant=run.tenant, job=job, job_version=job_version, state=run.state, because=run.because,
        priority=run.priority.name, generation=run.generation, schedule_id=run.schedule_id, window_at=run.window_at,
        created_at=run.created_at, started_at=run.started_at, ended_at=run.ended_at, retries=run.retries,
    )  # fmt: skip
    return CloudEvent(
        id=id,
        source=f"/tenants/{run.tenant}",
        type=f"dev.mainspring.{event_of(run.state)}.v1",
        subject=run.id,
        time=run.ended_at or at,
        data=_raw(news),
    )


def tell_test(id: str, webhook_id: str, *, tenant: str, at: datetime) -> CloudEvent:
    """A message that only shows whether it arrives."""
    return CloudEvent(
        id=id, source=f"/tenants/{tenant}", type=f"dev.mainspring.{TEST}.v1", subject=webhook_id, time=at,
        data=_raw({"message": "it works"}),
    )  # fmt: skip


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
