"""Submits the probes, waits for them, and leaves nothing behind: neither runs nor what was made for them.

1. Nothing is submitted before it is known that it can be cancelled again: both need the role operator.
2. However it ends, with an error or because somebody interrupts it, what still runs is cancelled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from mainspring.client.client import FINAL_RUN_STATES, FINAL_TASK_STATES, Client
from mainspring.protocol.clock import MachineClock
from mainspring.protocol.errors import MainspringError, NotFound, Refused
from mainspring.protocol.ids import entropy
from mainspring.protocol.rest.runs import RunView, WorkerView
from mainspring.protocol.rest.sharing import Amounts, GroupRequest, QueueView
from mainspring.smoke.outcomes import KindLine, Trace, Tried, Wrong, judge
from mainspring.smoke.probes import GROUP_MOST, Kind, Plan, Probe, Scene, definition, plan

_POLL_SECONDS = 0.5
_WHY = "mainspring smoke"
_MOST_DIAGNOSED = 5
"""Of a run's tasks that are not over: the others wait for the same."""
_NEVER = "never"
_ROOM_CORES = 1.0
"""A pool with less that is free is full."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted."""

    pool: str | None = None
    """None: where runs usually go."""
    tasks: int = 100
    seconds: float = 300.0
    """After so long it is given up."""
    is_strict: bool = False
    """A worker that offers more than its machine has is wrong."""


class SmokeReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it."""

    server: str
    tenant: str
    pool: str
    tasks: int
    right: int
    seconds: float
    is_over_time: bool
    kinds: list[KindLine]
    wrong: list[Wrong]
    left_out: dict[str, str]
    """Kinds of needs, and why nothing of them was asked for."""
    notes: list[str]


def carry_out(client: Client, clock: MachineClock, trial: Trial, advance: Callable[[int], None]) -> SmokeReport:
    """Try it, as the client's tenant. Raises what the server refuses, with nothing left behind."""
    began = clock.monotonic()
    with _group(client) as group:
        scene, pool = _look(client, trial.pool, group)
        wanted = plan(scene, trial.tasks)
        with _started(client, wanted, trial.pool) as runs:
            until = began + trial.seconds
            said = _wait(client, clock, runs, until, advance)
            is_over_time = clock.monotonic() >= until
            traces = [
                Trace(probe=probe, run=client.run(run.id), tasks=_tried(client, run), said=said) for probe, run in runs
            ]
    # Those that came meanwhile may have taken some of it.
    workers = {one.id: one for one in scene.workers} | _takers(client, pool)
    found = judge(traces, workers, is_strict=trial.is_strict)
    return SmokeReport(
        server=client.url,
        tenant=client.tenant or "",
        pool=pool,
        tasks=sum(line.tasks for line in found.kinds),
        right=sum(line.right for line in found.kinds),
        seconds=clock.monotonic() - began,
        is_over_time=is_over_time,
        kinds=found.kinds,
        wrong=found.wrong,
        left_out=wanted.left_out,
        notes=found.notes,
    )


@contextmanager
def _group(client: Client) -> Iterator[str]:
    """A group of this trial's own. Making it shows that whoever asks may also cancel: it takes the same role."""
    name = f"smoke-{entropy() & 0xFFFFFF:06x}"
    client.put_group(name, GroupRequest(most=GROUP_MOST, note=_WHY))
    try:
        yield name
    finally:
        # Left behind, it limits nothing but tasks that name it, and nobody does.
        with contextlib.suppress(MainspringError):
            client.drop_group(name, _WHY)


def _look(client: Client, pool: str | None, group: str) -> tuple[Scene, str]:
    """What there is. Raises Refused if nobody would take any work."""
    queue = client.queue(pool)
    workers = _takers(client, queue.pool)
    if not workers:
        refused = Refused(f"no worker of pool {queue.pool} takes work")
        refused.hint = "start one: `mainspring worker`; `mainspring doctor` says more"
        raise refused
    scene = Scene(
        workers=list(workers.values()),
        largest=_largest(client, queue.pool),
        may_p0=client.tenant is not None and client.tenant_use(client.tenant, queue.pool).p0,
        has_room=_free_cores(queue) >= _ROOM_CORES,
        group=group,
    )
    return scene, queue.pool


def _takers(client: Client, pool: str) -> dict[str, WorkerView]:
    """The workers of a pool that take work."""
    return {one.id: one for one in client.workers() if one.pool == pool and one.status == "ready" and not one.hold}


def _largest(client: Client, pool: str) -> Amounts | None:
    try:
        return client.pool_named(pool).max_resources
    except NotFound:
        return None


def _free_cores(queue: QueueView) -> float:
    return (queue.capacity.cpu or 0.0) - (queue.used.cpu or 0.0)


@contextmanager
def _started(client: Client, wanted: Plan, pool: str | None) -> Iterator[list[tuple[Probe, RunView]]]:
    """Runs of all probes. Whatever happens, none of them is left, nor their jobs."""
    runs: list[tuple[Probe, RunView]] = []
    try:
        for probe in wanted.probes:
            job = client.submit_job(definition(probe, pool))
            runs.append((probe, client.submit(job.id, priority=probe.priority)))
        yield runs
    finally:
        _cancel(client, runs)
        for probe, _ in runs:
            # A job that stays is only a line in a list.
            with contextlib.suppress(MainspringError):
                client.delete_job(probe.job, _WHY)


def _cancel(client: Client, runs: list[tuple[Probe, RunView]]) -> None:
    """Cancel what still runs. Of what can't be cancelled the run itself tells."""
    for _, run in runs:
        with contextlib.suppress(MainspringError):
            if client.run(run.id).state not in FINAL_RUN_STATES:
                client.cancel_run(run.id, _WHY)


def _wait(
    client: Client,
    clock: MachineClock,
    runs: list[tuple[Probe, RunView]],
    until: float,
    advance: Callable[[int], None],
) -> str:
    """Come back when all is over that can be, or the time is. Of what can't be placed: what is said of it."""
    said = ""
    done = 0
    open_runs = {run.id: probe for probe, run in runs}
    while open_runs and clock.monotonic() < until:
        under_way = 0
        for run_id, probe in list(open_runs.items()):
            run = client.run(run_id)
            over = sum(number for state, number in (run.task_states or {}).items() if state in FINAL_TASK_STATES)
            if probe.kind is Kind.NEVER:
                said = _what_is_said(client, run_id)
                over = len(probe.wants) if said else 0
            if run.state in FINAL_RUN_STATES or (probe.kind is Kind.NEVER and said):
                del open_runs[run_id]
                done += over
            else:
                under_way += over
        advance(done + under_way)
        if open_runs:
            clock.pause(min(_POLL_SECONDS, max(0.0, until - clock.monotonic())))
    return said


def _tried(client: Client, run: RunView) -> list[Tried]:
    """The tasks of a run, and who tried each of them: that is no longer on a task that is over."""
    found = []
    for place, task in enumerate(client.tasks_of(run.id)):
        is_open = task.state not in FINAL_TASK_STATES and place < _MOST_DIAGNOSED
        verdict = client.diagnosis("tasks", task.id).verdict if is_open else ""
        found.append(Tried(task=task, attempts=client.attempts(task.id), verdict=verdict))
    return found


def _what_is_said(client: Client, run_id: str) -> str:
    """What is said of a task that nobody can take; empty as long as that is not that it will never start."""
    for task in client.tasks_of(run_id, limit=1):
        found = client.diagnosis("tasks", task.id)
        if found.expected is not None and found.expected.foresight == _NEVER:
            return found.verdict
    return ""
