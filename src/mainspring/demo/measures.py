"""Results of the scenes as numbers, computed from the server's answers; pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

import msgspec

from mainspring.client.aio.client import FINAL_RUN_STATES
from mainspring.protocol.rest.runs import AttemptView, RunView, TaskView, WorkerView
from mainspring.protocol.rest.schedules import FireView

SUCCEEDED = "SUCCEEDED"
HOME = "default"
_UNSUCCESSFUL = frozenset({"FAILED", "PARTIAL", "TIMED_OUT"})


class _Measure(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a scene."""


class Beats(_Measure, frozen=True, kw_only=True, tag="Beats"):
    """A schedule that fires repeatedly."""

    windows: int
    """Windows that were due."""
    runs: int
    """Runs for these windows."""
    late_seconds: float
    """Start delay of the latest run after its window."""


class Forecast(_Measure, frozen=True, kw_only=True, tag="Forecast"):
    """A fan-out with one task that failed at first."""

    run_id: str
    state: str
    tasks: int
    """Tasks of the fan-out."""
    ends: tuple[str, ...]
    """Ends of the attempts of the failing task, in order."""


class Waiting(_Measure, frozen=True, kw_only=True, tag="Waiting"):
    """A schedule waits for an event."""

    schedule: str
    trigger: str
    """Description of the trigger."""
    event: str
    runs: int
    """Runs so far."""


class Arrived(_Measure, frozen=True, kw_only=True, tag="Arrived"):
    """The event was received."""

    schedule: str
    event: str
    by_hand: bool
    """Sent by the user rather than by the demo."""
    state: str
    """State of the triggered run."""


class Unplaceable(_Measure, frozen=True, kw_only=True, tag="Unplaceable"):
    """A task requires a label that no worker has."""

    run_id: str
    state: str
    wanted: str
    workers: int
    offering: int
    """Workers with the label."""


class Share(_Measure, frozen=True, kw_only=True, tag="Share"):
    """One tenant submitted many tasks, another few."""

    busy: str
    busy_tasks: int
    modest: str
    modest_tasks: int
    overtaken: int
    """Tasks of the busy tenant, submitted earlier, that started after all tasks of the modest tenant."""
    states: tuple[str, str]
    """States of both runs."""


class DeadLetter(_Measure, frozen=True, kw_only=True, tag="DeadLetter"):
    """A task failed permanently."""

    run_id: str
    state: str
    because: str
    attempts: int
    dead_letters: int
    """Dead letters of this run."""


class Stalled(_Measure, frozen=True, kw_only=True, tag="Stalled"):
    """A task was alive but made no progress."""

    run_id: str
    ends: tuple[str, ...]
    alert: str
    """Summary of the alert; empty without one."""
    state: str
    """Final state of the task."""


class Killed(_Measure, frozen=True, kw_only=True, tag="Killed"):
    """A worker was killed."""

    worker: str
    running: int
    """Tasks that were running on it."""


class Moved(_Measure, frozen=True, kw_only=True, tag="Moved"):
    """Rescheduled tasks of a killed worker."""

    worker: str
    status: str
    moved: int
    """Tasks that it had started and other workers finished."""
    lost: int
    """Tasks without a ledger entry at the end."""
    twice: int
    """Tasks with more than one ledger entry."""
    seconds: float
    """Time from the kill to the last restart elsewhere."""


class Storm(_Measure, frozen=True, kw_only=True, tag="Storm"):
    """Many schedules fired at the same instant."""

    schedules: int
    instants: int
    runs: int
    succeeded: int
    p95_seconds: float
    """95th percentile of the start delay."""


class Census(_Measure, frozen=True, kw_only=True, tag="Census"):
    """Totals of all runs."""

    runs: int
    succeeded: int
    after_retries: int
    """Succeeded runs with retries."""
    failed: tuple[str, ...]
    """Subjects of failed runs, sorted: `media/thumbs`."""
    cancelled: int
    never_started: tuple[str, ...]
    unfinished: int
    """Started, but not ended."""


Measure: TypeAlias = (
    Beats | Forecast | Waiting | Arrived | Unplaceable | Share | DeadLetter | Stalled | Killed | Moved | Storm | Census
)


def beats(fires: Sequence[FireView], runs: Sequence[RunView]) -> Beats:
    """Measure a schedule. Both lists are newest first."""
    return Beats(
        windows=sum(fire.count for fire in fires), runs=len(runs), late_seconds=_late(runs[0]) if runs else math.nan
    )


def share(busy: Sequence[TaskView], modest: Sequence[TaskView], states: tuple[str, str]) -> Share:
    """Measure fairness between two tenants, from all their ended tasks."""
    last = max((task.started_at for task in modest if task.started_at is not None), default=None)
    overtaken = [task for task in busy if task.started_at is not None and last is not None and task.started_at > last]
    return Share(
        busy=busy[0].tenant if busy else "", busy_tasks=len(busy), modest=modest[0].tenant if modest else "",
        modest_tasks=len(modest), overtaken=len(overtaken), states=states,
    )  # fmt: skip


def moved(
    worker: WorkerView,
    attempts: Mapping[str, Sequence[AttemptView]],
    labels: Mapping[str, str],
    traces: Sequence[str],
    killed_at: datetime,
) -> Moved:
    """Measure how the tasks of a killed worker were rescheduled.

    `attempts` and `labels` are by task; `traces` are ledger entries, one label per completed execution, written by the
    tasks themselves.
    """
    elsewhere = {
        task: tries[-1]
        for task, tries in attempts.items()
        if any(one.worker == worker.id and one.started_at is not None and one.end != "succeeded" for one in tries)
        and tries[-1].worker != worker.id
    }
    restarts = [one.started_at for one in elsewhere.values() if one.started_at is not None]
    done = Counter(traces)
    return Moved(
        worker=worker.id,
        status=worker.status,
        moved=len(elsewhere),
        lost=sum(done[label] == 0 for label in labels.values()),
        twice=sum(done[label] > 1 for label in labels.values()),
        seconds=(max(restarts) - killed_at).total_seconds() if restarts else math.nan,
    )


def storm(fires: Sequence[FireView], runs: Sequence[RunView]) -> Storm:
    """Measure simultaneous schedules, from their fires and their ended runs."""
    delays = sorted(_late(run) for run in runs if run.started_at is not None)
    return Storm(
        schedules=len({fire.schedule_id for fire in fires}),
        instants=len({fire.window_at for fire in fires}),
        runs=len(runs),
        succeeded=sum(run.state == SUCCEEDED for run in runs),
        p95_seconds=delays[math.ceil(0.95 * len(delays)) - 1] if delays else math.nan,
    )


def offering(workers: Sequence[WorkerView], label: str, value: str) -> int:
    """Count the workers with a label."""
    return sum(worker.labels.get(label) == value for worker in workers)


def census(runs: Sequence[RunView], begun: Collection[str]) -> Census:
    """Count all runs. `begun` are open runs with at least one assigned task."""
    states = Counter(run.state for run in runs)
    open_runs = [run for run in runs if run.state not in FINAL_RUN_STATES]
    return Census(
        runs=len(runs),
        succeeded=states[SUCCEEDED],
        after_retries=sum(run.state == SUCCEEDED and run.retries > 0 for run in runs),
        failed=tuple(sorted(subject_of(run) for run in runs if run.state in _UNSUCCESSFUL)),
        cancelled=states["CANCELLED"],
        never_started=tuple(sorted(subject_of(run) for run in open_runs if run.id not in begun)),
        unfinished=sum(run.id in begun for run in open_runs),
    )


def subject_of(run: RunView) -> str:
    """Return the job of a run, qualified by its tenant unless that is the default."""
    return run.job if run.tenant == HOME else f"{run.tenant}/{run.job}"


def _late(run: RunView) -> float:
    """Return the seconds from a run's window to its start; NaN if unknown."""
    if run.window_at is None or run.started_at is None:
        return math.nan
    return (run.started_at - run.window_at).total_seconds()
