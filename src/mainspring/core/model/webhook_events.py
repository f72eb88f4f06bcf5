"""Webhook messages: the end of a run as a CloudEvent 1.0 in JSON, and references to secret webhook URLs.

{"specversion": "1.0", "id": "msg_..", "source": "/tenants/acme", "type": "dev.mainspring.run.failed.v1",
 "subject": "run_..", "time": "..", "datacontenttype": "application/json", "text": "etl failed: ..", "data": {..}}
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime

import msgspec

from mainspring.core.model.run import FINAL_RUN, Run, RunState
from mainspring.core.model.task import Task

EVENTS = tuple(f"run.{state.lower()}" for state in sorted(FINAL_RUN))
"""Event names: `run.cancelled`, `run.failed`, `run.partial`, `run.succeeded`, `run.timed_out`."""
TEST = "webhook.test"
"""Event sent to test a delivery."""
MAX_TEXT_LENGTH = 500
_ENDED = {
    RunState.SUCCEEDED: "succeeded",
    RunState.FAILED: "failed",
    RunState.PARTIAL: "succeeded in part",
    RunState.TIMED_OUT: "timed out",
    RunState.CANCELLED: "was cancelled",
}
_REFERENCE = re.compile(r"\$\{(env:[A-Za-z_][A-Za-z0-9_]*|file:/[^{}]+)\}")


class RunEndedData(msgspec.Struct, frozen=True, kw_only=True):
    """Payload: the end of a run."""

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
    text: str
    """Summary for people: an extension attribute, shown by chat services."""
    data: msgspec.Raw
    """JSON: a `RunEndedData` for the end of a run."""


def event_of(state: RunState) -> str:
    """Return the event name of a final run state."""
    return f"run.{state.lower()}"


def is_subscribed(events: tuple[str, ...], job: str, *, state: RunState, job_name: str) -> bool:
    """Return whether a webhook is subscribed to this end of a run. No `events`: all; an empty `job`: any."""
    return (not events or event_of(state) in events) and job in {"", job_name}


def reference_in(url: str) -> str | None:
    """Return the reference of a webhook URL: `env:NAME` of `${env:NAME}`, `file:/path` of `${file:/path}`.

    None for anything else: it is a literal URL, or invalid.
    """
    found = _REFERENCE.fullmatch(url)
    return found and found[1]


def message_id(webhook_id: str, run_id: str, generation: int) -> str:
    """Return the id of a message, the same for the same end of a run: the receiver can detect duplicates."""
    return f"msg_{hashlib.sha256(f'{webhook_id} {run_id} {generation}'.encode()).hexdigest()[:32]}"


def format_run_end(run: Run, job: str, failed: Task | None = None) -> str:
    """Format the end of a run as one sentence, with the reason given by the failed task, if any."""
    because = run.because
    if failed is not None:
        because = failed.because if run.task_count == 1 else f"{failed.name}: {failed.because}"
    headline = f"{job} {_ENDED[run.state]}"
    remaining = MAX_TEXT_LENGTH - len(headline) - len(f":  ({run.id})")
    if run.state is RunState.SUCCEEDED or not because:
        return f"{headline} ({run.id})"
    return f"{headline}: {because if len(because) <= remaining else because[: remaining - 1] + '…'} ({run.id})"


def run_ended_event(
    id: str, run: Run, *, job: str, job_version: int, at: datetime, failed: Task | None = None
) -> CloudEvent:
    """Return the message for the end of a run and the first task that failed, if any."""
    payload = RunEndedData(
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
        text=format_run_end(run, job, failed),
        data=_raw(payload),
    )


def test_event(id: str, webhook_id: str, *, tenant: str, at: datetime) -> CloudEvent:
    """Return a test message."""
    return CloudEvent(
        id=id, source=f"/tenants/{tenant}", type=f"dev.mainspring.{TEST}.v1", subject=webhook_id, time=at,
        text="test delivery from Mainspring", data=_raw({"message": "test"}),
    )  # fmt: skip


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
