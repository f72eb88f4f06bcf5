"""What webhooks are told: how runs end, as CloudEvents 1.0 in JSON; and where an address is kept that is not said.

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
"""What one can want to hear of: `run.cancelled`, `run.failed`, `run.partial`, `run.succeeded`, `run.timed_out`."""
TEST = "webhook.test"
"""What is sent when somebody wants to see whether it arrives."""
LONGEST_TEXT = 500
_ENDED = {
    RunState.SUCCEEDED: "succeeded",
    RunState.FAILED: "failed",
    RunState.PARTIAL: "succeeded in part",
    RunState.TIMED_OUT: "timed out",
    RunState.CANCELLED: "was cancelled",
}
_REFERENCE = re.compile(r"\$\{(env:[A-Za-z_][A-Za-z0-9_]*|file:/[^{}]+)\}")


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
    text: str
    """What it says, for people: an extension attribute, which chat services show."""
    data: msgspec.Raw
    """JSON: a `RunNews` for the end of a run."""


def event_of(state: RunState) -> str:
    """The name under which the end of a run is asked for."""
    return f"run.{state.lower()}"


def is_wanted(events: tuple[str, ...], job: str, *, state: RunState, job_name: str) -> bool:
    """Whether a webhook that wants these events of this job (of any, if it is empty) wants to hear of such an end."""
    return (not events or event_of(state) in events) and job in {"", job_name}


def reference_in(url: str) -> str | None:
    """Where the address of a webhook is kept: `env:NAME` of `${env:NAME}`, `file:/path` of `${file:/path}`.

    None for anything else: it is the address itself, or none.
    """
    found = _REFERENCE.fullmatch(url)
    return found and found[1]


def message_id(webhook_id: str, run_id: str, generation: int) -> str:
    """The same for the same end of a run: whoever gets it twice knows it."""
    return f"msg_{hashlib.sha256(f'{webhook_id} {run_id} {generation}'.encode()).hexdigest()[:32]}"


def say_end(run: Run, job: str, failed: Task | None = None) -> str:
    """How a run ended, in one sentence; why, as the task says that failed, if there is one."""
    because = run.because
    if failed is not None:
        because = failed.because if run.task_count == 1 else f"{failed.name}: {failed.because}"
    said = f"{job} {_ENDED[run.state]}"
    room = LONGEST_TEXT - len(said) - len(f":  ({run.id})")
    if run.state is RunState.SUCCEEDED or not because:
        return f"{said} ({run.id})"
    return f"{said}: {because if len(because) <= room else because[: room - 1] + '…'} ({run.id})"


def tell_end(id: str, run: Run, *, job: str, job_version: int, at: datetime, failed: Task | None = None) -> CloudEvent:
    """The message about the end of a run, and of the first task that failed, if one did."""
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
        text=say_end(run, job, failed),
        data=_raw(news),
    )


def tell_test(id: str, webhook_id: str, *, tenant: str, at: datetime) -> CloudEvent:
    """A message that only shows whether it arrives."""
    return CloudEvent(
        id=id, source=f"/tenants/{tenant}", type=f"dev.mainspring.{TEST}.v1", subject=webhook_id, time=at,
        text="it works: this is only a test", data=_raw({"message": "it works"}),
    )  # fmt: skip


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
