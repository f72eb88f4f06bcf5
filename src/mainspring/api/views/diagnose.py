"""Finds out why a task, a run or a job does not go on: the leader is asked, and the rows where it can't say (OBS-1).

    over, or not taken in yet      the rows say all there is
    under way                      the leader of its pool, here or on another server, within ANSWER_SECONDS
    no answer                      the rows: SCHEDULER_LAG or UNKNOWN, how old they are, and no advice
    a job                          its latest run that is not over, and its schedules: what is a problem comes first

Schedules are `api/views/schedule_diagnosis.py`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import datetime
from typing import TypeVar

from msgspec.structs import replace

from mainspring.api.services import Services
from mainspring.api.views.schedule_diagnosis import diagnose_schedule_row
from mainspring.core.explain import from_rows
from mainspring.core.explain.diagnosis import Diagnosis, Reason, WaitingSum
from mainspring.core.explain.from_rows import Lead
from mainspring.core.explain.what_if import Outcome, Supposal
from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import RunState
from mainspring.core.model.task import Task, TaskState
from mainspring.host.host import LEASE
from mainspring.protocol.errors import Conflict, NotLeading, Overloaded
from mainspring.store.ports.front import ListedRun, RunFilter, TaskFilter
from mainspring.store.ports.schedules import ScheduleFilter

ANSWER_SECONDS = 1.0
"""For a leader to answer: whoever asks why something hangs is not left hanging."""
SUPPOSE_SECONDS = 8.0
"""For a leader to try something out on a copy: no rows can say that in its place."""
MOST_COUNTED = 100_000
"""Runs in intake, of each priority."""
_MOST_SCHEDULES = 20
"""Of a job, looked at one by one."""
_OPEN = (RunState.PENDING, RunState.RUNNING, RunState.PAUSED)
_FAILED = (TaskState.FAILED, TaskState.TIMED_OUT)
T = TypeVar("T")


async def diagnose_task(services: Services, task: Task) -> Diagnosis:
    """Why a task does not go on, or what became of it."""
    if task.state not in FINAL:
        try:
            found = await _ask(services, task.shard, task.id)
        except (NotLeading, Overloaded):
            lead, now = await _lead(services, task.shard)
            return from_rows.of_task(task, await _job_of(services, task.run_id), now, lead)
        if found is not None:
            return found
        task = await services.store.find_task(task.id) or task
    job, now = await _job_of(services, task.run_id), await services.time.now()
    if task.state not in FINAL:
        return from_rows.of_forgotten(task, job, now)
    cause = None if task.cause is None else await services.store.find_task(task.cause)
    return from_rows.of_ended_task(task, job, now, cause)


async def diagnose_run(services: Services, listed: ListedRun) -> Diagnosis:
    """Why a run does not go on: why that task of it does not that tells most; or what became of it."""
    run = listed.run
    if from_rows.is_over(run):
        failed = await _failed_task(services, listed)
        return from_rows.of_ended_run(run, listed.job_name, await services.time.now(), failed)
    if run.adopted_at is None:
        counts = await services.store.count_intake(run.shard, MOST_COUNTED)
        before = sum(count for priority, count in counts.items() if priority <= run.priority)
        lead, now = await _lead(services, run.shard)
        return from_rows.of_waiting_run(run, listed.job_name, now, before, lead)
    try:
        found = await _ask(services, run.shard, run.id)
    except (NotLeading, Overloaded):
        lead, now = await _lead(services, run.shard)
        return from_rows.of_run(run, listed.job_name, now, lead)
    if found is not None:
        return replace(found, subject=run.id)
    again = await services.store.find_run(run.id) or listed
    if from_rows.is_over(again.run):
        return await diagnose_run(services, again)
    return from_rows.of_open_run(run, listed.job_name, await services.time.now())


async def diagnose_job(services: Services, job: JobRow) -> Diagnosis:
    """Why a job does not run: a run that hangs, a schedule that is stopped, else what comes next, or how it failed."""
    going = RunFilter(tenant=job.tenant, job=job.name, states=_OPEN, with_history=False)
    runs = await services.store.list_runs(going, 1)
    schedules = await services.store.list_schedules(ScheduleFilter(tenant=job.tenant, job=job.name), _MOST_SCHEDULES)
    found = [await diagnose_run(services, listed) for listed in runs]
    called = job.name if len(schedules) == 1 else ""
    found += [await diagnose_schedule_row(services, row, called) for row in schedules]
    if not found:
        latest = await services.store.list_runs(RunFilter(tenant=job.tenant, job=job.name), 1)
        if not latest or not from_rows.has_failed(latest[0].run):
            return from_rows.of_job(job, await services.time.now(), latest[0].run if latest else None)
        found.append(await diagnose_run(services, latest[0]))
    return replace(min(found, key=_place), subject=job.id)


async def suppose(services: Services, task: Task, supposal: Supposal) -> Outcome:
    """What would become of a task if something were otherwise. Raises NotLeading, or Conflict if it has started."""
    if task.state not in FINAL:
        asked = services.shards.suppose(task.shard, task.id, supposal)
        outcome = await _within(SUPPOSE_SECONDS, task.shard, asked)
        if outcome is not None:
            return outcome
    raise Conflict(f"{task.id} is {task.state}: what if is for tasks that have not started")


async def waiting_sums(services: Services, pool: str, tenant: str | None) -> list[WaitingSum]:
    """How many tasks of a pool wait for what, of one tenant or of all. Raises NotLeading."""
    return await _within(ANSWER_SECONDS, pool, services.shards.waiting_sums(pool, tenant))


def _place(found: Diagnosis) -> tuple[bool, bool, bool, datetime]:
    """Problems first, then what is held up, then what goes on, then what comes next."""
    is_next = found.reason in {Reason.WAITING_TIME, Reason.WAITING_EVENT}
    comes_at = found.expected.earliest if found.expected is not None else None
    return (not found.is_problem(), found.reason is None or is_next, found.run is None, comes_at or found.at)


async def _ask(services: Services, pool: str, subject: str) -> Diagnosis | None:
    """What the leader says of a task or run. One that is here takes its time, and is never slower than the rows."""
    asked = services.shards.diagnose(pool, subject)
    return await (asked if pool in services.shards.leads() else _within(ANSWER_SECONDS, pool, asked))


async def _within(seconds: float, pool: str, answer: Awaitable[T]) -> T:
    """What a leader answers. Raises NotLeading if it does not in time."""
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError:
        raise NotLeading(f"the leader of {pool} has not answered in {seconds:g} s") from None


async def _lead(services: Services, pool: str) -> tuple[Lead, datetime]:
    """Who leads a pool as the rows say, and what time it is. A lease is renewed with every batch."""
    now = await services.store.time()
    row = next((row for row in await services.store.shards() if row.id == pool), None)
    if row is None:
        return Lead(pool=pool, server="", is_held=False, age_seconds=0.0, batch=0), now
    renewed_at = row.lease_until - LEASE
    lead = Lead(
        pool=pool,
        server=row.leader,
        is_held=row.lease_until > now,
        age_seconds=max(0.0, (now - renewed_at).total_seconds()),
        batch=row.batch_no,
    )
    return lead, now


async def _job_of(services: Services, run_id: str) -> str:
    listed = await services.store.find_run(run_id)
    return "?" if listed is None else listed.job_name


async def _failed_task(services: Services, listed: ListedRun) -> Task | None:
    """The task that failed first, as far as that is known."""
    run = listed.run
    if run.state is RunState.SUCCEEDED:
        return None
    if run.failed_task is not None:
        return await services.store.find_task(run.failed_task)
    if listed.in_history:
        return next((task for task in await services.store.tasks(run.id) if task.state in _FAILED), None)
    failed = await services.store.list_tasks(TaskFilter(run_id=run.id, states=_FAILED), 1)
    return failed[0] if failed else None
