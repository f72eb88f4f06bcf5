"""Diagnose a task, run or job: from its leader, or from the rows where the leader can't answer (OBS-1).

    ended, or in intake            the rows have everything
    in progress                    the leader of its pool, local or remote, within ANSWER_TIMEOUT_SECONDS
    no answer                      the rows: SCHEDULER_LAG or UNKNOWN, with their age, and no advice
    a job                          its latest open run, and its schedules: problems first

Schedules are diagnosed in `api/views/schedule_diagnosis.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from msgspec.structs import replace

from mainspring.api.cluster.forwarding import LeaderRouter
from mainspring.api.request_components import RequestComponent
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.views.schedule_diagnosis import diagnose_schedule_row
from mainspring.core.explain import from_rows
from mainspring.core.explain.diagnosis import Diagnosis, Reason, WaitingSummary
from mainspring.core.explain.from_rows import Lead
from mainspring.core.explain.what_if import Hypothesis, Outcome
from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import FINAL_RUN, UNSUCCESSFUL_RUN, RunState
from mainspring.core.model.task import Task, TaskState
from mainspring.host.host import LEASE
from mainspring.protocol.errors import Conflict, NotLeading, Overloaded
from mainspring.store.ports.front import ListedRun, RunFilter, TaskFilter
from mainspring.store.ports.schedules import ScheduleFilter
from mainspring.store.ports.store import Store

ANSWER_TIMEOUT_SECONDS = 1.0
"""Timeout of a leader's answer."""
WHAT_IF_SECONDS = 8.0
"""Timeout of a leader's what-if; rows can't replace it."""
MAX_COUNTED = 100_000
"""Counting limit of runs in intake, per priority."""
_MAX_SCHEDULES = 20
"""Maximum number of schedules of a job to diagnose."""
_OPEN = (RunState.PENDING, RunState.RUNNING, RunState.PAUSED)
_FAILED = (TaskState.FAILED, TaskState.TIMED_OUT)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Diagnoses(RequestComponent):
    """Diagnoses of tasks, runs and jobs."""

    store: Store
    time: StoreTimeCache
    leaders: LeaderRouter

    async def task(self, task: Task) -> Diagnosis:
        """Diagnose a task: why it waits, or how it ended."""
        if task.state not in FINAL:
            try:
                found = await self._ask_leader(task.shard, task.id)
            except (NotLeading, Overloaded):
                lead, now = await self._leader_state(task.shard)
                return from_rows.of_task(task, await self._job_of(task.run_id), now, lead)
            if found is not None:
                return found
            task = await self.store.find_task(task.id) or task
        job, now = await self._job_of(task.run_id), await self.time.now()
        if task.state not in FINAL:
            return from_rows.of_unknown_task(task, job, now)
        cause = None if task.cause is None else await self.store.find_task(task.cause)
        return from_rows.of_ended_task(task, job, now, cause)

    async def run(self, listed: ListedRun) -> Diagnosis:
        """Diagnose a run by its most informative task, or by how it ended."""
        run = listed.run
        if run.state in FINAL_RUN:
            failed = await self._failed_task(listed)
            return from_rows.of_ended_run(run, listed.job_name, await self.time.now(), failed)
        if run.adopted_at is None:
            counts = await self.store.count_intake(run.shard, MAX_COUNTED)
            before = sum(count for priority, count in counts.items() if priority <= run.priority)
            lead, now = await self._leader_state(run.shard)
            return from_rows.of_waiting_run(run, listed.job_name, now, before, lead)
        try:
            found = await self._ask_leader(run.shard, run.id)
        except (NotLeading, Overloaded):
            lead, now = await self._leader_state(run.shard)
            return from_rows.of_run(run, listed.job_name, now, lead)
        if found is not None:
            return replace(found, subject=run.id)
        again = await self.store.find_run(run.id) or listed
        if again.run.state in FINAL_RUN:
            return await self.run(again)
        return from_rows.of_open_run(run, listed.job_name, await self.time.now())

    async def job(self, job: JobRow) -> Diagnosis:
        """Diagnose a job: an open run, a stopped schedule, else what comes next, or how it failed."""
        going = RunFilter(tenant=job.tenant, job=job.name, states=_OPEN, with_history=False)
        runs = await self.store.list_runs(going, 1)
        schedules = await self.store.list_schedules(ScheduleFilter(tenant=job.tenant, job=job.name), _MAX_SCHEDULES)
        found = [await self.run(listed) for listed in runs]
        called = job.name if len(schedules) == 1 else ""
        found += [await diagnose_schedule_row(self.store, row, called) for row in schedules]
        if not found:
            latest = await self.store.list_runs(RunFilter(tenant=job.tenant, job=job.name), 1)
            if not latest or latest[0].run.state not in UNSUCCESSFUL_RUN:
                return from_rows.of_job(job, await self.time.now(), latest[0].run if latest else None)
            found.append(await self.run(latest[0]))
        return replace(min(found, key=_sort_key), subject=job.id)

    async def what_if(self, task: Task, hypothesis: Hypothesis) -> Outcome:
        """Forecast a task under a hypothesis. Raises NotLeading, or Conflict if it has started."""
        if task.state not in FINAL:
            answer = self.leaders.what_if(task.shard, task.id, hypothesis)
            outcome = await _within(WHAT_IF_SECONDS, task.shard, answer)
            if outcome is not None:
                return outcome
        raise Conflict(f"{task.id} is {task.state}: what-if needs a task that has not started")

    async def summarize_waiting(self, pool: str, tenant: str | None) -> list[WaitingSummary]:
        """Count the queued tasks of a pool by reason, for one tenant or all. Raises NotLeading."""
        return await _within(ANSWER_TIMEOUT_SECONDS, pool, self.leaders.summarize_waiting(pool, tenant))

    async def _ask_leader(self, pool: str, subject: str) -> Diagnosis | None:
        """Ask the leader for a diagnosis; a local leader has no timeout, as it is never slower than the rows."""
        answer = self.leaders.diagnose(pool, subject)
        return await (answer if pool in self.leaders.leads() else _within(ANSWER_TIMEOUT_SECONDS, pool, answer))

    async def _leader_state(self, pool: str) -> tuple[Lead, datetime]:
        """Read the leader of a pool, and the time. A lease is renewed with every batch."""
        now = await self.store.time()
        row = next((row for row in await self.store.shards() if row.id == pool), None)
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

    async def _job_of(self, run_id: str) -> str:
        listed = await self.store.find_run(run_id)
        return "?" if listed is None else listed.job_name

    async def _failed_task(self, listed: ListedRun) -> Task | None:
        """Return the first failed task, if known."""
        run = listed.run
        if run.state is RunState.SUCCEEDED:
            return None
        if run.failed_task is not None:
            return await self.store.find_task(run.failed_task)
        if listed.in_history:
            return next((task for task in await self.store.tasks(run.id) if task.state in _FAILED), None)
        failed = await self.store.list_tasks(TaskFilter(run_id=run.id, states=_FAILED), 1)
        return failed[0] if failed else None


def _sort_key(found: Diagnosis) -> tuple[bool, bool, bool, datetime]:
    """Return the sort key: problems, then blocked, then in progress, then upcoming."""
    is_next = found.reason in {Reason.WAITING_TIME, Reason.WAITING_EVENT}
    comes_at = found.expected.earliest if found.expected is not None else None
    return (not found.is_problem(), found.reason is None or is_next, found.run is None, comes_at or found.at)


async def _within(seconds: float, pool: str, answer: Awaitable[T]) -> T:
    """Await a leader's answer. Raises NotLeading on a timeout."""
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError:
        raise NotLeading(f"the leader of {pool} has not answered in {seconds:g} s") from None
