"""Views of runs, tasks and schedules, and tallies, for tests of `state_view`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import UNSET

from mainspring.folder.state import state_view
from mainspring.folder.state.records import RunRecord, ScheduleState
from mainspring.folder.state.state_view import Tally
from mainspring.protocol.rest.runs import RunView, TaskView
from mainspring.protocol.rest.schedules import ScheduleView

T0 = datetime(2026, 1, 26, 14, 0, tzinfo=UTC)
TOMORROW = T0 + timedelta(days=1)
NO_RUNS = Tally()


def at(seconds: float) -> datetime:
    """This many seconds after T0."""
    return T0 + timedelta(seconds=seconds)


def schedule(state: str = "active", next_at: datetime | None = TOMORROW) -> ScheduleView:
    """The server's view of a schedule."""
    return ScheduleView(
        id="sched_1", tenant="default", name="a-abcdef", job="a", version=1, state=state, because="", trigger="daily",
        next_at=next_at, planned_through=T0, waiting=False, pool="default", created_at=T0, created_by="x",
        updated_at=T0,
        updated_by="x",
    )  # fmt: skip


def run(
    id: str = "run_1", state: str = "SUCCEEDED", begins: float = 0, ends: float | None = 155, **more: object
) -> RunView:
    """The server's view of a run."""
    return RunView(
        id=id, tenant="default", job="a", job_version=1, job_id="job_1", pool="default", state=state, priority="P1",
        params=msgspec.Raw(b"{}"), task_count=1, submitted_by="", linked_run=None, generation=1,
        created_at=at(begins), start_at=at(begins), adopted_at=at(begins), ended_at=None if ends is None else at(ends),
        paused=False, held=None, cancelled_by=None, because=f"it is {state}", **more,  # type: ignore[arg-type]
    )  # fmt: skip


def task(
    name: str = "t", state: str = "SUCCEEDED", *, output: object = None, error: object = None, **more: object
) -> TaskView:
    """The server's view of a task."""
    said = {
        "attempt": 1, "due_at": None, "because": "why", "partition": None, **more,
    }  # fmt: skip
    return TaskView(
        id=f"task_{name}", run_id="run_1", tenant="default", name=name, state=state, priority="P1", since=T0,
        generation=1, attempt_id=None, worker=None, assigned_at=None, started_at=None, ended_at=None, stop=None,
        output=msgspec.Raw(msgspec.json.encode(output)), error=msgspec.Raw(msgspec.json.encode(error)),
        **said,  # type: ignore[arg-type]
    )  # fmt: skip


def record(begins: float = 0, *, success: bool = True, duration: int | None = 1_000) -> RunRecord:
    """The record of a finished run."""
    ends = at(begins) + timedelta(milliseconds=duration or 0)
    return RunRecord(
        started_at=at(begins), completed_at=ends, success=success, duration=UNSET if duration is None else duration
    )


def shown(tally: Tally = NO_RUNS, view: ScheduleView | None = None, **more: object) -> ScheduleState:
    """The content of the state file."""
    return state_view.state_of(view or schedule(), tally, schedule_id="a-abcdef", pipeline_id="a", **more)  # type: ignore[arg-type]


def counted(*records: RunRecord, max_history: int = 50) -> Tally:
    """A tally of these runs, in this order."""
    tally = Tally()
    for number, one in enumerate(records):
        tally = state_view.count(
            tally, run(f"run_{number}", begins=(one.started_at - T0).total_seconds()), one, max_history=max_history
        )
    return tally
