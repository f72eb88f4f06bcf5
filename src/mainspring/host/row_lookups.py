"""Lookups of rows that a shard does not have in memory: the event is repeated with the rows attached."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from mainspring.host.job_cache import JobCache
from mainspring.shard.effects import LookUpAttempt, LookUpRun
from mainspring.shard.events import Event, RunRows
from mainspring.store.ports.store import Store


async def look_up(
    store: Store, jobs: JobCache, shard: str, lookups: Sequence[LookUpAttempt | LookUpRun]
) -> list[Event]:
    """Return the events with their rows. Raises Unavailable."""
    reports = [lookup.event for lookup in lookups if isinstance(lookup, LookUpAttempt)]
    actions = [lookup.event for lookup in lookups if isinstance(lookup, LookUpRun)]
    events: list[Event] = []
    if reports:
        found = await store.find_attempts([report.attempt for report in reports])
        recorded = {attempt.id: attempt for attempt in found}
        events += [replace(report, looked_up=True, recorded=recorded.get(report.attempt)) for report in reports]
    for action in actions:
        events.append(replace(action, rows=await _rows_of(store, jobs, shard, action.run_id)))
    return events


async def _rows_of(store: Store, jobs: JobCache, shard: str, run_id: str) -> RunRows:
    rows = await store.load_run(run_id)
    if not rows.runs or rows.runs[0].shard != shard:
        return RunRows()
    run = rows.runs[0]
    found, _ = await jobs.get([run.job_id])
    return RunRows(
        run=run, job=found.get(run.job_id), tasks=tuple(rows.tasks), bulk_operations=tuple(rows.bulk_operations),
        checkpoints=tuple(rows.checkpoints),
    )  # fmt: skip
