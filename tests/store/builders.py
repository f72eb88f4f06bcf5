"""Structs for tests, with defaults for everything that a test is not about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import msgspec

from mainspring.core.model.artifacts import ArtifactRow
from mainspring.core.model.batch import Batch, OutboxRow, TaskChange
from mainspring.core.model.decisions import Decision, DecisionKind
from mainspring.core.model.job import JobRow
from mainspring.core.model.resources import Resources
from mainspring.core.model.run import Run, RunState
from mainspring.core.model.task import Attempt, AttemptEnd, Priority, Task, TaskState, Transition
from mainspring.core.placement.task_shapes import Shape
from mainspring.protocol.ids import task_id
from mainspring.store.ports.store import Store, Term
from mainspring.store.postgres.connection.connection_pool import Limits

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
NOW = datetime(2025, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
"""Some instant of the past."""

JOB = JobRow(id="job_0", tenant="builders", name="any", version=1, definition="{}")
"""Default job of runs. The stores of the fixtures have it; `Leader.of` creates it."""

UNHURRIED = Limits(lock=60.0, idle_in_transaction=70.0, statement=80.0, deadline=90.0, long_deadline=100.0)
"""Long timeouts for a store whose answers are compared, on a busy machine. Use with a lease of an hour."""

_numbers = count(1)


def new_number() -> int:
    """A unique number."""
    return next(_numbers)


def a_job(**changes: Any) -> JobRow:
    """A definition."""
    values: dict[str, Any] = {
        "id": f"job_{new_number()}", "tenant": "acme", "name": "report", "version": 0, "definition": '{"a": 1}',
    }  # fmt: skip
    return JobRow(**(values | changes))


def a_run(**changes: Any) -> Run:
    """A run in intake."""
    values: dict[str, Any] = {
        "id": f"run_{new_number():012x}-{new_number():016x}", "shard": "main", "tenant": "acme", "job_id": JOB.id,
        "priority": Priority.P1, "params": '{"day":"2026-11-15"}', "task_count": 1, "submitted_by": "ann",
        "created_at": NOW, "start_at": NOW,
    }  # fmt: skip
    return Run(**(values | changes))


def adopted(run: Run, **changes: Any) -> Run:
    """The same run, adopted."""
    return msgspec.structs.replace(run, **({"state": RunState.RUNNING, "adopted_at": NOW} | changes))


def ended(run: Run, **changes: Any) -> Run:
    """The same run, ended."""
    return adopted(run, **({"state": RunState.SUCCEEDED, "ended_at": NOW} | changes))


def a_task(run: Run, position: int = 0, **changes: Any) -> Task:
    """A new task of a run."""
    values: dict[str, Any] = {
        "id": task_id(run.id, position), "run_id": run.id, "shard": run.shard, "tenant": run.tenant,
        "name": f"step-{position}", "position": position, "priority": run.priority, "seq": 1, "since": NOW,
    }  # fmt: skip
    return Task(**(values | changes))


def a_change(task: Task, **changes: Any) -> TaskChange:
    """A change of that task to its next state."""
    new = msgspec.structs.replace(task, **({"state": TaskState.QUEUED, "seq": task.seq + 1} | changes))
    return TaskChange(new, task.state, task.seq)


def a_transition(task: Task, **changes: Any) -> Transition:
    """A transition."""
    values: dict[str, Any] = {
        "task_id": task.id, "run_id": task.run_id, "tenant": task.tenant, "generation": 1, "seq": task.seq,
        "attempt": 0, "start": None, "end": task.state, "at": NOW, "by": "shard", "because": "it is new",
    }  # fmt: skip
    return Transition(**(values | changes))


def an_attempt(task: Task, **changes: Any) -> Attempt:
    """An ended attempt."""
    values: dict[str, Any] = {
        "id": f"att_{new_number():012x}-{new_number():016x}", "task_id": task.id, "run_id": task.run_id,
        "shard": task.shard, "tenant": task.tenant, "generation": 1, "number": 1, "worker_id": "w1",
        "lease_id": "lease_1", "assigned_at": NOW, "started_at": NOW, "ended_at": NOW, "end": AttemptEnd.SUCCEEDED,
    }  # fmt: skip
    return Attempt(**(values | changes))


def a_decision(task: Task, **changes: Any) -> Decision:
    """A decision about a task."""
    values: dict[str, Any] = {
        "id": f"dec_{new_number():012x}-{new_number():016x}", "at": NOW, "kind": DecisionKind.PLACED,
        "shard": task.shard, "tenant": task.tenant, "task_id": task.id, "run_id": task.run_id, "name": task.name,
        "attempt": 1, "priority": task.priority, "request": Shape(resources=Resources(cpu_millis=500)),
        "worker_id": "w1", "free": Resources(cpu_millis=4_000), "score": 0.25, "workers_examined": 3,
        "why": "it is the best",
        "version": "1.0",
    }  # fmt: skip
    return Decision(**(values | changes))


def an_artifact(task: Task, path: str = "report.csv", **changes: Any) -> ArtifactRow:
    """An artifact of an attempt."""
    values: dict[str, Any] = {
        "run_id": task.run_id, "task_id": task.id, "attempt_id": "att_1", "path": path, "task": task.name,
        "partition": None, "tenant": task.tenant, "size_bytes": 7, "sha256": "0" * 64, "location": f"file:///srv/{path}",
        "keep_seconds": 0, "succeeded": True, "stored_at": NOW,
    }  # fmt: skip
    return ArtifactRow(**(values | changes))


def an_outgoing(**changes: Any) -> OutboxRow:
    """An outbox row."""
    number = new_number()
    values: dict[str, Any] = {
        "id": f"out_{number}", "key": f"key_{number}", "kind": "run.ended", "payload": "{}", "created_at": NOW,
    }  # fmt: skip
    return OutboxRow(**(values | changes))


class Leader:
    """Leads a shard of a store and numbers its batches."""

    def __init__(self, store: Store, term: Term) -> None:
        self.store = store
        self.term = term
        self.number = term.batch_no

    @classmethod
    async def of(cls, store: Store, shard: str = "main", *, ttl: timedelta = HOUR) -> Leader:
        """Create the shard and the job of all runs, and become the shard's leader."""
        await store.ensure_shard(shard)
        await store.insert_job(JOB)
        term = await store.campaign(shard, "host-1", new_number(), ttl)
        assert term is not None
        return cls(store, term)

    async def commit(self, **parts: Any) -> datetime:
        """Commit the next batch."""
        at = await self.store.commit(self.term, self.number + 1, Batch(**parts))
        self.number += 1
        return at

    async def adopt(self, *runs: Run, tasks: int = 1) -> list[Task]:
        """Submit runs, adopt them, and create their tasks."""
        await self.store.insert_runs(runs)
        new_tasks = [a_task(run, position) for run in runs for position in range(tasks)]
        await self.commit(
            runs=[adopted(run) for run in runs],
            new_tasks=new_tasks,
            transitions=[a_transition(task) for task in new_tasks],
        )
        return new_tasks
