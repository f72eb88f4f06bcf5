"""Submits runs to a store without a server, for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from mainspring.app.build import POOL
from mainspring.core.model.job import JobRow, JobSpec, TaskSpec
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority
from mainspring.protocol.ids import entropy, new_id
from mainspring.store.ports.store import Store

NOOP = JobSpec(name="noop", tasks=(TaskSpec(name="noop", expected_seconds=0.001),))
TENANTS = ("acme", "globex", "initech")
AT_ONCE = 1_000

_random = Random(entropy())


async def submit(
    store: Store, runs: int, tenants: Sequence[str] = TENANTS, *, spec: JobSpec = NOOP,
    priority: Priority = Priority.P2, by: str = "test",
) -> list[Run]:  # fmt: skip
    """Submit runs of a job, in turn for each tenant."""
    now = await store.time()
    definition = msgspec.json.encode(spec).decode()
    jobs = {}
    for tenant in tenants:
        row = JobRow(id=new_id("job", now, _random), tenant=tenant, name=spec.name, version=0, definition=definition)
        jobs[tenant] = (await store.insert_job(row)).id
    rows = [
        Run(
            id=new_id("run", now, _random),
            shard=POOL,
            tenant=(tenant := tenants[number % len(tenants)]),
            job_id=jobs[tenant],
            priority=priority,
            params="{}",
            task_count=len(spec.tasks),
            submitted_by=by,
            created_at=now,
            start_at=now,
        )
        for number in range(runs)
    ]
    await insert(store, rows)
    return rows


async def insert(store: Store, runs: Sequence[Run]) -> None:
    """Insert runs, in requests of a thousand."""
    for first in range(0, len(runs), AT_ONCE):
        await store.insert_runs(runs[first : first + AT_ONCE])
