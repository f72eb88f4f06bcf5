"""Submit the probes, wait for them, and clean up runs, jobs and the test group.

1. Nothing is submitted before the permission to cancel is verified: creating the group needs the same role, operator.
2. Remaining runs are cancelled in any case, also on errors and interrupts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import msgspec

from mainspring.client.client import FINAL_RUN_STATES, FINAL_TASK_STATES, Client
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import MainspringError, NotFound, Refused
from mainspring.protocol.ids import entropy
from mainspring.protocol.rest.runs import RunView, WorkerView
from mainspring.protocol.rest.sharing import Amounts, GroupRequest
from mainspring.smoke.check_results import KindLine, ProbeResult, TaskRecord, Violation, judge
from mainspring.smoke.probes import MAX_IN_GROUP, Environment, Kind, Plan, Probe, definition, plan

_POLL_SECONDS = 0.5
_WHY = "mainspring smoke"
_MAX_DIAGNOSED = 5
"""Maximum number of open tasks to diagnose per run; the others have the same cause."""
_NEVER = "never"
_MIN_FREE_CORES = 1.0
"""A pool with less free CPU counts as full."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a trial."""

    pool: str | None = None
    """None for the server's default pool."""
    tasks: int = 100
    seconds: float = 300.0
    """Time limit."""
    is_strict: bool = False
    """Workers that overstate their machine are violations."""


class SmokeReport(msgspec.Struct, frozen=True, kw_only=True):
    """Report of a trial."""

    server: str
    tenant: str
    pool: str
    tasks: int
    passed: int
    seconds: float
    is_timed_out: bool
    kinds: list[KindLine]
    violations: list[Violation]
    skipped: dict[str, str]
    """Skipped kinds with reasons."""
    notes: list[str]


def run_trial(client: Client, clock: SystemClock, trial: Trial, advance: Callable[[int], None]) -> SmokeReport:
    """Run a trial as the client's tenant. Errors of the server are raised after cleanup."""
    began = clock.monotonic()
    with _group(client) as group:
        environment, pool = _inspect(client, trial.pool, group)
        wanted = plan(environment, trial.tasks)
        with _started(client, wanted, trial.pool) as runs:
            until = began + trial.seconds
            verdict_text = _wait(client, clock, runs, until, advance)
            is_timed_out = clock.monotonic() >= until
            results = [
                ProbeResult(probe=probe, run=client.run(run.id), tasks=_records(client, run), verdict_text=verdict_text)
                for probe, run in runs
            ]
    # Workers that joined meanwhile may have run some of the tasks.
    workers = {one.id: one for one in environment.workers} | _available_workers(client, pool)
    found = judge(results, workers, is_strict=trial.is_strict)
    return SmokeReport(
        server=client.url,
        tenant=client.tenant or "",
        pool=pool,
        tasks=sum(line.tasks for line in found.kinds),
        passed=sum(line.passed for line in found.kinds),
        seconds=clock.monotonic() - began,
        is_timed_out=is_timed_out,
        kinds=found.kinds,
        violations=found.violations,
        skipped=wanted.skipped,
        notes=found.notes,
    )


@contextmanager
def _group(client: Client) -> Iterator[str]:
    """Create the test group, which also verifies that the caller may cancel: it takes the same role."""
    name = f"smoke-{entropy() & 0xFFFFFF:06x}"
    client.put_group(name, GroupRequest(most=MAX_IN_GROUP, note=_WHY))
    try:
        yield name
    finally:
        # A leftover group is harmless: no other task uses it.
        with suppress(MainspringError):
            client.drop_group(name, _WHY)


def _inspect(client: Client, pool: str | None, group: str) -> tuple[Environment, str]:
    """Inspect the pool. Raises Refused if it has no schedulable worker."""
    queue = client.queue(pool)
    workers = _available_workers(client, queue.pool)
    if not workers:
        refused = Refused(f"pool {queue.pool} has no schedulable worker")
        refused.hint = "start one with `mainspring worker`, or see `mainspring doctor`"
        raise refused
    environment = Environment(
        workers=list(workers.values()),
        largest=_largest(client, queue.pool),
        may_p0=client.tenant is not None and client.tenant_use(client.tenant, queue.pool).p0,
        has_capacity=(queue.capacity.cpu or 0.0) - (queue.used.cpu or 0.0) >= _MIN_FREE_CORES,
        group=group,
    )
    return environment, queue.pool


def _available_workers(client: Client, pool: str) -> dict[str, WorkerView]:
    """Return the schedulable workers of a pool."""
    return {one.id: one for one in client.workers() if one.pool == pool and one.status == "ready" and not one.hold}


def _largest(client: Client, pool: str) -> Amounts | None:
    try:
        return client.pool_named(pool).max_resources
    except NotFound:
        return None


@contextmanager
def _started(client: Client, wanted: Plan, pool: str | None) -> Iterator[list[tuple[Probe, RunView]]]:
    """Submit all probes; their open runs are cancelled and their jobs deleted afterwards, ignoring errors."""
    runs: list[tuple[Probe, RunView]] = []
    try:
        for probe in wanted.probes:
            job = client.submit_job(definition(probe, pool))
            runs.append((probe, client.submit(job.id, priority=probe.priority)))
        yield runs
    finally:
        for _, run in runs:
            with suppress(MainspringError):
                if client.run(run.id).state not in FINAL_RUN_STATES:
                    client.cancel_run(run.id, _WHY)
        for probe, _ in runs:
            # A leftover job is harmless.
            with suppress(MainspringError):
                client.delete_job(probe.job, _WHY)


def _wait(
    client: Client,
    clock: SystemClock,
    runs: list[tuple[Probe, RunView]],
    until: float,
    advance: Callable[[int], None],
) -> str:
    """Wait until all placeable runs have ended or the time is up. Return the verdict of the unplaceable task."""
    verdict_text = ""
    done = 0
    open_runs = {run.id: probe for probe, run in runs}
    while open_runs and clock.monotonic() < until:
        in_progress = 0
        for run_id, probe in list(open_runs.items()):
            run = client.run(run_id)
            over = sum(number for state, number in (run.task_states or {}).items() if state in FINAL_TASK_STATES)
            if probe.kind is Kind.NEVER:
                verdict_text = _never_verdict(client, run_id)
                over = len(probe.task_requirements) if verdict_text else 0
            if run.state in FINAL_RUN_STATES or (probe.kind is Kind.NEVER and verdict_text):
                del open_runs[run_id]
                done += over
            else:
                in_progress += over
        advance(done + in_progress)
        if open_runs:
            clock.pause(min(_POLL_SECONDS, max(0.0, until - clock.monotonic())))
    return verdict_text


def _records(client: Client, run: RunView) -> list[TaskRecord]:
    """Return the tasks of a run with their attempts; ended tasks no longer have a worker themselves."""
    found = []
    for place, task in enumerate(client.tasks_of(run.id)):
        is_open = task.state not in FINAL_TASK_STATES and place < _MAX_DIAGNOSED
        verdict = client.diagnosis("tasks", task.id).verdict if is_open else ""
        found.append(TaskRecord(task=task, attempts=client.attempts(task.id), verdict=verdict))
    return found


def _never_verdict(client: Client, run_id: str) -> str:
    """Return the verdict of an unplaceable task once its diagnosis says that it never starts; empty before."""
    for task in client.tasks_of(run_id, limit=1):
        found = client.diagnosis("tasks", task.id)
        if found.expected is not None and found.expected.kind == _NEVER:
            return found.verdict
    return ""
