"""What can be said of a scene, in numbers: from what the server answers, purely."""

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
    """What became of a scene."""


class Beats(_Measure, frozen=True, kw_only=True, tag="Beats"):
    """A schedule that fires again and again."""

    windows: int
    """How many were due."""
    runs: int
    """How many runs there were for them."""
    late_seconds: float
    """From its window to its start, of the latest run."""


class Forecast(_Measure, frozen=True, kw_only=True, tag="Forecast"):
    """A fan-out of which one task failed at first."""

    run_id: str
    state: str
    tasks: int
    """Of the fan-out."""
    ends: tuple[str, ...]
    """How the attempts at the one that failed ended, in order."""


class Waiting(_Measure, frozen=True, kw_only=True, tag="Waiting"):
    """A schedule waits for an event."""

    schedule: str
    trigger: str
    """What it waits for, in words."""
    event: str
    runs: int
    """That it has led to so far."""


class Arrived(_Measure, frozen=True, kw_only=True, tag="Arrived"):
    """The event came."""

    schedule: str
    event: str
    by_hand: bool
    """Somebody else than the demo sent it."""
    state: str
    """Of the run that it led to."""


class Unplaceable(_Measure, frozen=True, kw_only=True, tag="Unplaceable"):
    """A task waits for something that nobody has."""

    run_id: str
    state: str
    wanted: str
    workers: int
    offering: int
    """How many of the workers have it."""


class Share(_Measure, frozen=True, kw_only=True, tag="Share"):
    """One tenant asked for much, another one for little."""

    busy: str
    busy_tasks: int
    modest: str
    modest_tasks: int
    overtaken: int
    """Tasks of the busy one, asked for earlier, that started after all of the modest one's had."""
    states: tuple[str, str]
    """Of both runs."""


class DeadLetter(_Measure, frozen=True, kw_only=True, tag="DeadLetter"):
    """A task failed in a way that no try can help."""

    run_id: str
    state: str
    because: str
    attempts: int
    dead_letters: int
    """Of this run."""


class Stalled(_Measure, frozen=True, kw_only=True, tag="Stalled"):
    """A task lived and got nowhere."""

    run_id: str
    ends: tuple[str, ...]
    alert: str
    """What the owner was told; empty if nothing."""
    state: str
    """Of the task, in the end."""


class Killed(_Measure, frozen=True, kw_only=True, tag="Killed"):
    """A worker was killed."""

    worker: str
    running: int
    """Tasks that it was running."""


class Moved(_Measure, frozen=True, kw_only=True, tag="Moved"):
    """What became of a killed worker's tasks."""

    worker: str
    status: str
    moved: int
    """Tasks that it had begun, and others finished."""
    lost: int
    """Tasks that left no trace in the end."""
    twice: int
    """Tasks that left more than one."""
    seconds: float
    """From the kill until the last of them ran elsewhere."""


class Storm(_Measure, frozen=True, kw_only=True, tag="Storm"):
    """Many schedules fired at the same instant."""

    schedules: int
    instants: int
    runs: int
    succeeded: int
    p95_seconds: float
    """From the instant to a run's start: 95 % were no later."""


class Census(_Measure, frozen=True, kw_only=True, tag="Census"):
    """Everything that there was."""

    runs: int
    succeeded: int
    after_retries: int
    """Of those that succeeded."""
    failed: tuple[str, ...]
    """Whose, in order of names: `media/thumbs`."""
    cancelled: int
    never_started: tuple[str, ...]
    unfinished: int
    """Started, and not over."""


Measure: TypeAlias = (
    Beats | Forecast | Waiting | Arrived | Unplaceable | Share | DeadLetter | Stalled | Killed | Moved | Storm | Census
)


def beats(fires: Sequence[FireView], runs: Sequence[RunView]) -> Beats:
    """What a schedule did; both are the newest first."""
    return Beats(
        windows=sum(fire.count for fire in fires), runs=len(runs), late_seconds=_late(runs[0]) if runs else math.nan
    )


def share(busy: Sequence[TaskView], modest: Sequence[TaskView], states: tuple[str, str]) -> Share:
    """How two tenants got along: all their tasks, which are over."""
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
    """What became of the tasks of a killed worker.

    `attempts` and `labels` are by task; `traces` has a label for each time that a task was done to its end, written by
    the tasks themselves.
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
    """How many schedules took it, what each did at the instant, and the runs of it, which are over."""
    delays = sorted(_late(run) for run in runs if run.started_at is not None)
    return Storm(
        schedules=len({fire.schedule_id for fire in fires}),
        instants=len({fire.window_at for fire in fires}),
        runs=len(runs),
        succeeded=sum(run.state == SUCCEEDED for run in runs),
        p95_seconds=delays[math.ceil(0.95 * len(delays)) - 1] if delays else math.nan,
    )


def offering(workers: Sequence[WorkerView], label: str, value: str) -> int:
    """How many workers have a label."""
    return sum(worker.labels.get(label) == value for worker in workers)


def census(runs: Sequence[RunView], begun: Collection[str]) -> Census:
    """All runs; `begun` are those that are not over, and of which some task was given to a worker."""
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
    """Whose run of what; the tenant of those who name none goes without saying."""
    return run.job if run.tenant == HOME else f"{run.tenant}/{run.job}"


def _late(run: RunView) -> float:
    """Seconds from a run's window to its start, as far as both are known."""
    if run.window_at is None or run.started_at is None:
        return math.nan
    return (run.started_at - run.window_at).total_seconds()
