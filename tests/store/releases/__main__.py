"""Record a session of the release that is checked out."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import asyncpg

from mainspring.core.batch import LateResult, RejectedEvent, Spread, SpreadKind, TaskChange, WorkerRow
from mainspring.core.tasks import TaskState
from mainspring.store.port import PRUNABLE, IdempotencyKey, Store, Want
from mainspring.store.postgres import PostgresStore
from tests.postgres import running_postgres
from tests.store.builders import (
    DAY,
    HOUR,
    NOW,
    Leader,
    a_change,
    a_job,
    a_run,
    a_transition,
    an_attempt,
    an_outgoing,
    ended,
)


async def session(store: Store) -> None:
    """Everything that a server does with its store."""
    leader = await Leader.of(store)
    await store.time()
    await store.shards()
    await store.prepare_days(0)
    job = await store.insert_job(a_job())
    first, second = a_run(job_id=job.id), a_run(job_id=job.id)
    await store.insert_runs([second], IdempotencyKey(tenant="acme", key="k", body_hash="h"))
    await store.insert_runs([second], IdempotencyKey(tenant="acme", key="k", body_hash="h"))
    await store.waiting("main", 10)
    await store.intake("main", [Want(second.priority, "acme", 10)])
    await store.next_start("main")
    (task,) = await leader.adopt(first)
    await write_everything(leader, a_change(task, state=TaskState.RUNNING, attempt_id="att_1", worker_id="w1"))
    await store.load("main")
    await store.load_run(first.id)
    await store.jobs([job.id])
    await store.find_attempts(["att_1"])
    (outgoing,) = await store.take_outgoing("host-1", 1, HOUR)
    await store.postpone(outgoing.id, -HOUR, "no answer")
    await store.delivered([outgoing.id])
    await leader.commit(runs=[ended(first)])
    await store.ended_runs("main", DAY, 10)
    await leader.commit(archived=[first.id])
    await store.run(first.id)
    await store.tasks(first.id)
    for what in PRUNABLE:
        await store.prune(what, 30 * DAY)
    await store.release(leader.term)


async def write_everything(leader: Leader, change: TaskChange) -> None:
    """A batch with something of everything."""
    task = change.task
    attempt = an_attempt(task)
    spread = Spread(
        run_id=task.run_id, parent="", generation=1, kind=SpreadKind.CANCEL, shard="main", total=2, done=1, by="ann",
        why="asked to",
    )  # fmt: skip
    worker = WorkerRow(
        id="w1", shard="main", offer="{}", labels="{}", zone="", version="1", status="ready", since=NOW,
        last_heard_at=NOW,
    )  # fmt: skip
    fault = RejectedEvent(id="r1", shard="main", kind="k", subject=task.id, event="{}", fault="f", at=NOW)
    late = LateResult(attempt_id=attempt.id, outcome="failed", output=None, error="e", at=NOW)
    await leader.commit(
        tasks=[change], transitions=[a_transition(task)], attempts=[attempt], late=[late], spreads=[spread],
        outbox=[an_outgoing()], rejected=[fault], workers=[worker],
    )  # fmt: skip
    spread.done = spread.total
    await leader.commit(spreads=[spread], workers=[worker])


class Recorder:
    """Stands between the store and its connections, and writes down what passes."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._driver = {name: getattr(asyncpg.Connection, name) for name in ("execute", "fetch", "prepare")}

    def start(self) -> None:
        """From now on, write down."""
        recorder = self

        async def execute(connection: Any, query: str, *args: Any, **_: Any) -> str:
            status: str = await recorder._driver["execute"](connection, query, *args)
            await recorder.note(connection, query, args, status.rpartition(" ")[2] if args else "done")
            return status

        async def fetch(connection: Any, query: str, *args: Any, **_: Any) -> Any:
            found = await recorder._driver["fetch"](connection, query, *args)
            await recorder.note(connection, query, args, f"{len(found)} rows")
            return found

        async def fetchrow(connection: Any, query: str, *args: Any, **_: Any) -> Any:
            found = await fetch(connection, query, *args)
            return found[0] if found else None

        async def fetchval(connection: Any, query: str, *args: Any, **_: Any) -> Any:
            found = await fetch(connection, query, *args)
            return found[0][0] if found else None

        async def copy(connection: Any, table: str, *, records: Iterable[Sequence[Any]], columns: Sequence[str]) -> str:
            names = ", ".join(f'"{name}"' for name in columns)
            marks = ", ".join(f"${place}" for place in range(1, len(columns) + 1))
            for record in records:
                await execute(connection, f"INSERT INTO {table} ({names}) VALUES ({marks})", *record)
            return "COPY"

        for method in (execute, fetch, fetchrow, fetchval):
            setattr(asyncpg.Connection, method.__name__, method)
        setattr(asyncpg.Connection, "copy_records_to_table", copy)  # noqa: B010 - the driver's class is not ours to type

    async def note(self, connection: Any, query: str, args: Sequence[Any], outcome: str) -> None:
        """One statement, with its arguments in place of the marks."""
        if args:
            types = (await self._driver["prepare"](connection, query)).get_parameters()
            for place in range(len(args), 0, -1):
                kind = f"{types[place - 1].name}".replace("[]", "") + ("[]" if types[place - 1].kind == "array" else "")
                ask = f"SELECT quote_nullable($1::{kind}::text)"
                ((literal,),) = await self._driver["fetch"](connection, ask, args[place - 1])
                query = query.replace(f"${place}", f"{literal}::{kind}")
        if outcome.isdigit():
            outcome = f"{outcome} changed"
        self.lines.append(f"{' '.join(query.split()).rstrip(';')};\n-- {outcome}")


async def record(url: str) -> list[str]:
    """A session on a new database."""
    store = await PostgresStore.connect(url)
    recorder = Recorder()
    recorder.start()
    await session(store)
    await store.close()
    return recorder.lines


with running_postgres() as url:
    lines = asyncio.run(record(url))
sys.stdout.write(f"-- What a server of schema {sys.argv[1]} says to PostgreSQL, as recorded by tests/store/releases.\n")
sys.stdout.write("\n".join(lines) + "\n")
