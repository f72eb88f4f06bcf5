"""What people ask for, on SQLite, as the port has it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.model.artifacts import ArtifactRow
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.batch import Checkpoint, WorkerRow
from mainspring.core.model.decisions import Decision
from mainspring.core.model.job import JobRow
from mainspring.core.model.task import Attempt, Task, Transition
from mainspring.store.ports.artifacts import ArtifactFilter
from mainspring.store.ports.front import DecisionFilter, JobDay, ListedRun, RunFilter, TaskFilter, TransitionRecord
from mainspring.store.sql import lists as listing
from mainspring.store.sqlite import jobs, lists
from mainspring.store.sqlite.calls import Calls


class SqliteLists(Calls):
    """The part of the port that is `Lists`, but for what `store/sql/schedule_lists.py` has."""

    async def list_runs(self, wanted: RunFilter, limit: int) -> list[ListedRun]:
        """Runs, the newest first."""
        return await self._read(lists.list_runs, wanted, limit)

    async def count_runs(self, wanted: RunFilter, most: int) -> int:
        """How many runs there are."""
        return await self._read(lists.count_runs, wanted, most)

    async def find_run(self, run_id: str) -> ListedRun | None:
        """One run with its job's name, also from history."""
        return await self._read(lists.find_run, run_id)

    async def list_tasks(self, wanted: TaskFilter, limit: int) -> list[Task]:
        """Tasks by id."""
        return await self._read(lists.list_tasks, wanted, limit)

    async def count_tasks(self, wanted: TaskFilter, most: int) -> int:
        """How many tasks there are."""
        return await self._read(lists.count_tasks, wanted, most)

    async def task_states(self, run_id: str, tasks: int) -> dict[str, dict[str, int]]:
        """How many tasks of a run are in which state, by name."""
        return await self._read(jobs.task_states, run_id, tasks)

    async def find_task(self, task_id: str) -> Task | None:
        """One task, also from history."""
        return await self._read(lists.find_task, task_id)

    async def attempts_of(self, task_id: str) -> list[Attempt]:
        """The attempts of a task that are over."""
        return await self._read(lists.attempts_of, task_id)

    async def transitions_of(self, task_id: str) -> list[Transition]:
        """The story of a task."""
        return await self._read(lists.transitions_of, task_id)

    async def transitions_after(self, shard: str, batch_no: int, ordinal: int, limit: int) -> list[TransitionRecord]:
        """What happened in a shard after a place of its story."""
        return await self._read(lists.transitions_after, shard, batch_no, ordinal, limit)

    async def list_decisions(
        self, wanted: DecisionFilter, before: tuple[datetime, str] | None, limit: int
    ) -> list[Decision]:
        """Decisions, the latest first."""
        return await self._listed(Decision, listing.decisions(wanted, before, limit))

    async def list_artifacts(
        self, wanted: ArtifactFilter, after: tuple[str, str, str] | None, limit: int
    ) -> list[ArtifactRow]:
        """Artifacts of a run."""
        return await self._listed(ArtifactRow, listing.artifacts(wanted, after, limit))

    async def list_jobs(self, tenant: str | None, after: str, limit: int) -> list[JobRow]:
        """The latest version of each job."""
        return await self._read(lists.list_jobs, tenant, after, limit)

    async def find_job(self, tenant: str, name: str, version: int | None = None) -> JobRow | None:
        """A version of a job."""
        return await self._read(lists.find_job, tenant, name, version)

    async def latest_jobs(self, tenant: str, names: Sequence[str]) -> list[JobRow]:
        """The latest versions of some jobs."""
        return await self._read(lists.latest_jobs, tenant, names) if names else []

    async def job_versions(self, tenant: str, name: str, before: int | None, limit: int) -> list[JobRow]:
        """The versions of a job, the latest first."""
        return await self._read(lists.job_versions, tenant, name, before, limit)

    async def delete_job(self, tenant: str, name: str, audit: AuditEntry) -> bool:
        """Delete all versions of a job, softly."""
        return await self._write(jobs.delete_job, tenant, name, audit, self._now())

    async def job_days(self, tenant: str, job: str, since: datetime, before: datetime) -> list[JobDay]:
        """What became of a job's runs, by day."""
        return await self._read(jobs.job_days, tenant, job, since, before)

    async def list_workers(self, shard: str | None, after: str, limit: int) -> list[WorkerRow]:
        """Workers by id."""
        return await self._read(lists.list_workers, shard, after, limit)

    async def checkpoint(self, task_id: str) -> Checkpoint | None:
        """The latest checkpoint of a task."""
        return await self._read(lists.checkpoint, task_id)
