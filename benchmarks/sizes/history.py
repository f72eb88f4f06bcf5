"""Synthetic history of a store: successful runs of one task each, spread evenly over the last weeks.

A day's partition is filled before it is attached, so that its indexes are built at once: ten million rows take two or
three minutes instead of seven, with the same result. Today's finished runs and tasks are not in history yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from asyncpg import Connection

from mainspring.app.build import POOL

DAYS = 28
"""Days, up to today. Fewer than any retention, so that nothing is deleted."""
ROWS_OF_A_RUN = 8
"""A run, its task, one attempt, and five transitions."""
TENANTS = 300
_MARGIN = timedelta(seconds=30)
"""No run spans midnight."""

_PAST = """
    SELECT n, 't' || lpad((n % {tenants})::text, 3, '0') AS tenant, 'job_' || n % {tenants} AS job_id,
        lpad(to_hex(ms), 12, '0') || '-' || lpad(to_hex(n * 2654435761 % 4294967296), 16, '0') AS id,
        to_timestamp(ms / 1000.0) AS at
    FROM (SELECT n, ({first} + (n - {begin}) * ({last} - {first}) / {runs})::bigint AS ms
          FROM generate_series({begin}, {begin} + {runs} - 1) AS up (n)) AS moments
"""
_RUNS = """
    INSERT INTO {table} (id, shard, tenant, job_id, priority, params, task_count, submitted_by, watched, created_at,
        start_at, state, generation, adopted_at, ended_at, paused, timed_out, because, started_at, retries)
    SELECT 'run_' || id, '{pool}', tenant, job_id, 2, '{{"day":"2026-11-15"}}', 1, 'ann', false, at, at, 'SUCCEEDED', 1,
        at, at + interval '9 s', false, false, 'no task failed', at + interval '2 s', 0
    FROM ({past}) AS past
"""
_TASKS = """
    INSERT INTO {table} (id, run_id, shard, tenant, name, position, priority, state, generation, seq, attempt, tries,
        losses, because, since, assigned_at, started_at, ended_at, output, ran_on{more})
    SELECT 'task_' || id || '.0', 'run_' || id, '{pool}', tenant, 'extract', 0, 2, 'SUCCEEDED', 1, 5, 1, 1, 0,
        'succeeded', at + interval '9 s', at + interval '1 s', at + interval '2 s', at + interval '9 s', 'null',
        'worker-' || n % 100{ended}
    FROM ({past}) AS past
"""
_ATTEMPTS = """
    INSERT INTO {table} (id, task_id, run_id, shard, tenant, generation, number, worker_id, lease_id, assigned_at,
        started_at, ended_at, "end")
    SELECT 'att_' || id, 'task_' || id || '.0', 'run_' || id, '{pool}', tenant, 1, 1, 'worker-' || n % 100,
        'lease_' || id, at + interval '1 s', at + interval '2 s', at + interval '9 s', 'succeeded'
    FROM ({past}) AS past
"""
_TRANSITIONS = """
    INSERT INTO {table} (shard, batch_no, ordinal, task_id, run_id, tenant, generation, seq, attempt, start, "end",
        at, "by", because)
    SELECT '{pool}', -1 - n, seq, 'task_' || id || '.0', 'run_' || id, tenant, 1, seq, seq / 3, was, becomes,
        at + seconds * interval '1 s', CASE WHEN seq > 3 THEN 'worker-' || n % 100 ELSE 'shard' END, because
    FROM ({past}) AS past CROSS JOIN (VALUES
        (1, NULL, 'PENDING', 0, 'made'), (2, 'PENDING', 'QUEUED', 0, 'ready: nothing upstream is open'),
        (3, 'QUEUED', 'ASSIGNED', 1, 'placed on a worker'), (4, 'ASSIGNED', 'RUNNING', 2, 'its process has started'),
        (5, 'RUNNING', 'SUCCEEDED', 9, 'succeeded')
    ) AS steps (seq, was, becomes, seconds, because)
"""
_IN_HISTORY = {"more": ", run_ended_at", "ended": ", at + interval '9 s'"}
_ACTIVE = {"more": "", "ended": ""}


async def write_history(connection: Connection, rows: int, now: datetime) -> None:
    """Write about this number of rows."""
    await connection.execute(
        f"""INSERT INTO jobs (id, tenant, name, version, definition)
            SELECT 'job_' || t, 't' || lpad(t::text, 3, '0'), 'nightly', 1, '{{}}'
            FROM generate_series(0, {TENANTS - 1}) AS t"""
    )
    for statement in statements(rows, now):
        await connection.execute(statement, timeout=600)


def statements(rows: int, now: datetime) -> Iterator[str]:
    """SQL that writes this many rows, day by day."""
    runs = rows // ROWS_OF_A_RUN // DAYS
    today = datetime(now.year, now.month, now.day, tzinfo=UTC)
    for number in range(DAYS):
        day = today - timedelta(days=DAYS - 1 - number)
        end = min(day + timedelta(days=1), now) - _MARGIN
        first, last = (int(at.timestamp() * 1_000) for at in (day, max(day, end)))
        past = _PAST.format(tenants=TENANTS, begin=number * runs, runs=runs, first=first, last=last)
        words = {"pool": POOL, "past": past}
        if day == today:
            yield _RUNS.format(table="runs", **words)
            yield _TASKS.format(table="tasks", **_ACTIVE, **words)
            yield _ATTEMPTS.format(table="attempts", **words)
            yield _TRANSITIONS.format(table="transitions", **words)
        else:
            yield from _attached("runs_history", day, _RUNS, words)
            yield from _attached("tasks_history", day, _TASKS, _IN_HISTORY | words)
            yield from _attached("attempts", day, _ATTEMPTS, words)
            yield from _attached("transitions", day, _TRANSITIONS, words)


def _attached(table: str, day: datetime, filling: str, words: dict[str, str]) -> Iterator[str]:
    name = f"{table}_{day:%Y%m%d}"
    yield f"CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS)"
    yield filling.format(table=name, **words)
    yield f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ('{day}') TO ('{day + timedelta(days=1)}')"
