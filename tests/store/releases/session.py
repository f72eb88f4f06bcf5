"""Record a session of the current release: the SQL statements of everything that a server does with its store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import asyncpg
from msgspec.structs import replace

from mainspring.core.model.audit_entry import seal
from mainspring.core.model.batch import (
    BulkOperation,
    BulkOperationKind,
    Checkpoint,
    LateResult,
    RejectedEvent,
    TaskChange,
    WorkerRow,
)
from mainspring.core.model.run import RunState
from mainspring.core.model.schedule_rows import ScheduleDecision
from mainspring.core.model.task import TaskState
from mainspring.core.schedules.windows import Outcome
from mainspring.store.ports.admin import AuditFilter
from mainspring.store.ports.front import DecisionFilter, RunFilter, ServerRow, TaskFilter
from mainspring.store.ports.schedules import FireFilter, ScheduleFilter
from mainspring.store.ports.store import PRUNABLE, IdempotencyKey, IntakeRequest, KeyedRun, Store
from mainspring.store.postgres.store import PostgresStore
from tests.store.admin_builders import a_delivery, a_measure, a_tenant, a_webhook, an_entry
from tests.store.builders import (
    DAY,
    HOUR,
    NOW,
    Leader,
    a_change,
    a_decision,
    a_job,
    a_run,
    a_transition,
    an_attempt,
    an_outgoing,
    ended,
)
from tests.store.schedule_builders import (
    a_backfill,
    a_change_of,
    a_fire,
    a_schedule,
    an_alert,
    an_event,
    fire_once,
    given,
    given_fires,
    rule,
)
from tests.store.sharing_builders import (
    LIMIT,
    a_freeze,
    a_grant,
    a_group,
    a_policy,
    a_pool,
    a_quota,
    a_request,
    a_share,
    a_tally,
)
from tests.store.test_circuit_breakers import a_breaker, a_duration
from tests.store.test_tokens import a_token


async def session(store: Store) -> None:
    """Everything that a server does with its store."""
    leader = await Leader.of(store)
    await store.time()
    await store.shards()
    await store.prepare_days(0)
    job = await store.insert_job(a_job(), an_entry())
    first, second = a_run(job_id=job.id), a_run(job_id=job.id)
    await store.insert_runs([second], IdempotencyKey(tenant="acme", key="k", body_hash="h"))
    await store.insert_runs([second], IdempotencyKey(tenant="acme", key="k", body_hash="h"))
    await store.waiting("main", 10)
    await store.intake("main", [IntakeRequest(second.priority, "acme", 10)])
    await store.next_start("main")
    (task,) = await leader.adopt(first)
    await write_everything(leader, a_change(task, state=TaskState.RUNNING, attempt_id="att_1", worker_id="w1"))
    await store.load("main")
    await look_at(store, first.id, task.id)
    await store.load_run(first.id)
    await store.jobs([job.id])
    await store.find_attempts(["att_1"])
    (outgoing,) = await store.claim_outbox("host-1", 1, HOUR)
    await store.postpone(outgoing.id, -HOUR, "no answer")
    await store.delivered([outgoing.id])
    await leader.commit(runs=[ended(first)])
    await store.ended_runs("main", DAY, 10)
    await leader.commit(archived=[first.id])
    await store.run(first.id)
    await store.tasks(first.id)
    await store.find_run(first.id)
    await store.find_task(task.id)
    await take_part(store)
    await evaluate_schedules_session(store)
    await administer(store)
    await share(leader)
    for what in PRUNABLE:
        await store.prune(what, 30 * DAY)
    await store.release(leader.term)


async def look_at(store: Store, run_id: str, task_id: str) -> None:
    """All queries."""
    await store.list_runs(RunFilter(), 10)
    await store.list_runs(RunFilter(states=(RunState.FAILED,), labels=(("team", "ml"),)), 10)
    await store.count_runs(RunFilter(), 10)
    await store.list_runs(RunFilter(tenant="acme", job="report", states=(RunState.RUNNING,)), 10)
    await store.find_run(run_id)
    for wanted in (
        TaskFilter(run_id=run_id),
        TaskFilter(tenant="acme", states=(TaskState.RUNNING,)),
        TaskFilter(states=(TaskState.QUEUED,)),
    ):
        await store.list_tasks(wanted, 10)
    await store.find_task(task_id)
    await store.attempts_of(task_id)
    await store.transitions_of(task_id)
    await store.transitions_after("main", 0, 0, 10)
    await store.list_decisions(DecisionFilter(task_id=task_id), (NOW, "dec_1"), 10)
    await store.list_jobs("acme", "", 10)
    await store.find_job("acme", "report")
    await store.job_versions("acme", "report", None, 10)
    await store.job_days("acme", "report", NOW, NOW + DAY)
    await store.count_tasks(TaskFilter(run_id=run_id), 10)
    await store.task_states(run_id, 1_000)
    await store.list_workers("main", "", 10)
    await store.checkpoint(task_id)


async def take_part(store: Store) -> None:
    """Work of servers outside of shards."""
    key = IdempotencyKey(tenant="acme", key="other", body_hash="h")
    for _ in range(2):
        await store.insert_keyed([KeyedRun(run=a_run(), key=key, audit=an_entry())])
    await store.insert_runs([a_run()], audit=[an_entry()])
    await store.record_heartbeats("main", ["w1"])
    await store.silent_workers("main", DAY, 10, DAY)
    await store.record_server_heartbeat(
        ServerRow(name="a", address="http://a", version="1", started_at=NOW, last_heartbeat_at=NOW)
    )
    await store.servers(HOUR)
    await store.delete_server("a")
    await store.setting("jitter", "1")
    token = a_token()
    await store.insert_token(token, an_entry())
    await store.insert_token(token)
    await store.find_token(token.id)
    await store.token_used([token.id])
    await store.list_tokens("acme")
    await store.revoke_token(token.id, an_entry())


async def evaluate_schedules_session(store: Store) -> None:
    """All changes of schedules, and their notifications."""
    other = a_schedule(job="load", next_at=None)
    schedule = a_schedule(after_job="load", event_type="file.arrived", has_waiting_windows=True)
    await given(store, other, schedule)
    await store.next_due()
    await store.evaluate_due(10, rule(fire_once))
    backfill, outgoing = a_backfill(schedule), an_outgoing()
    waits = a_fire(schedule, outcome=Outcome.WAITING, backfill_id=backfill.id)
    await given_fires(
        store, schedule, waits, backfills=(backfill,), changes=(a_change_of(schedule),), outgoing=(outgoing,)
    )
    await store.evaluate_waiting(
        10, 0.0, rule(lambda case: ScheduleDecision(schedule=replace(case.schedule, paused=True)))
    )
    event = an_event()
    record_heartbeats = replace(waits, event=event.document)
    await store.receive_events(
        schedule.tenant,
        [event],
        rule(lambda case: ScheduleDecision(schedule=case.schedule, fires=(record_heartbeats,))),
    )
    alert = an_alert()
    await store.open_alert(alert, [an_outgoing()])
    await store.open_alert(replace(alert, id="alert_2"), [])
    await store.resolve_alert(alert.key, NOW, lambda _: [an_outgoing()])
    await store.find_schedule(schedule.tenant, schedule.name)
    await store.list_schedules(ScheduleFilter(tenant=schedule.tenant, enabled=True), 10)
    await store.next_schedules(None, NOW + DAY, 10)
    await store.schedules_after([(schedule.tenant, "load")])
    await store.fires_of_runs(["run_1"])
    await store.fires(FireFilter(schedule_id=schedule.id), 10)
    await store.schedule_changes(schedule.id, 10)
    await store.backfills(schedule.id, 10)
    await store.list_events(None, None, NOW, 10)
    await store.list_alerts(None, True, "", 10)
    await store.list_dead_letters("acme", "report", None, 10)
    await store.durations("acme", "report")
    await store.breakers()


async def administer(store: Store) -> None:
    """Administration of an installation."""
    await store.record([an_entry()])
    await store.seal_audit(3, seal)
    await store.seal_audit(1000, seal)
    latest, *_ = await store.list_audit(AuditFilter(tenant="acme"), None, 10)
    await store.list_audit(AuditFilter(object="run_1", since=NOW), (latest.at, latest.id), 10)
    await store.audit_chain("acme", 0, 10)
    await store.audit_heads("", 10)
    await store.put_tenant(a_tenant(), 0, an_entry())
    await store.find_tenant("acme")
    await store.list_tenants("", 10)
    await store.put_setting_override(a_measure(), None, an_entry())
    await store.setting_overrides()
    await store.drop_setting_override(a_measure().name, an_entry())
    hook = await store.put_webhook(a_webhook(), None, an_entry())
    message = a_delivery(hook)
    await store.add_deliveries([message], [an_outgoing()])
    await store.record_delivery(message.id, state="failed", status=500, fault="broken")
    await store.resend(message.id, an_outgoing(), an_entry())
    await store.find_webhook(hook.id)
    await store.list_webhooks("acme", "", 10)
    await store.find_delivery(message.id)
    await store.list_deliveries(hook.id, "", 10)
    await store.drop_webhook(hook.id, an_entry())
    await store.delete_job("acme", "report", an_entry())
    await store.insert_job(a_job(), an_entry())


async def share(leader: Leader) -> None:
    """Sharing rules, and usage of limits."""
    store = leader.store
    await store.put_pool(a_pool(), 0, an_entry())
    policy = await store.put_policy(a_policy(), None, an_entry())
    await store.put_quota(a_quota(), None, an_entry())
    await store.grant_p0(a_grant(), an_entry())
    group = await store.put_group(a_group(), None, an_entry())
    freeze = await store.freeze(a_freeze(), an_entry())
    await store.rules_version()
    await store.rules()
    for _ in range(2):
        await store.take_share(leader.term, LIMIT, 10, 7)
        # Grants for longer periods contain a time that has passed at a replay (ADR 0036).
        await store.take_rate_grants([a_request(limit=name, per_seconds=0.3) for name in ("one", "other")])
    await leader.commit(shares=[a_share()], failure_counts=[a_tally()])
    await store.shares([LIMIT])
    await store.count_intake("main", 10)
    await store.load("main")
    await store.drop_policy(policy.name, an_entry())
    await store.drop_quota("acme", "eu", an_entry())
    await store.revoke_p0("acme", an_entry())
    await store.drop_group("acme", group.name, an_entry())
    await store.unfreeze(freeze.kind, freeze.subject, an_entry())


async def write_everything(leader: Leader, change: TaskChange) -> None:
    """A batch with rows of every kind."""
    task = change.task
    attempt = an_attempt(task)
    bulk_operation = BulkOperation(
        run_id=task.run_id, parent="", generation=1, kind=BulkOperationKind.CANCEL, shard="main", total=2, done=1,
        by="ann",
        why="asked to",
    )  # fmt: skip
    worker = WorkerRow(
        id="w1", shard="main", offer="{}", labels="{}", zone="", version="1", status="ready", since=NOW,
        last_heartbeat_at=NOW, hold="cordoned", hold_why="ann: new disk",
    )  # fmt: skip
    fault = RejectedEvent(id="r1", shard="main", kind="k", subject=task.id, event="{}", fault="f", at=NOW)
    checkpoint = Checkpoint(task_id=task.id, run_id=task.run_id, attempt_id="att_1", document="{}", saved_at=NOW)
    late = LateResult(attempt_id=attempt.id, outcome="failed", output=None, error="e", at=NOW)
    await leader.commit(
        tasks=[change], transitions=[a_transition(task)], attempts=[attempt], late=[late],
        bulk_operations=[bulk_operation],
        outbox=[an_outgoing()], rejected=[fault], workers=[worker], checkpoints=[checkpoint],
        breakers=[a_breaker()], durations=[a_duration()], audit=[an_entry()], decisions=[a_decision(task)],
    )  # fmt: skip
    bulk_operation.done = bulk_operation.total
    await leader.commit(bulk_operations=[bulk_operation], workers=[worker], breakers=[a_breaker(closed_at=NOW)])


class Recorder:
    """Records the statements that the store sends to its connections."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._driver = {name: getattr(asyncpg.Connection, name) for name in ("execute", "fetch", "prepare")}

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the statements of this block."""
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

        with patch.multiple(
            asyncpg.Connection,
            execute=execute,
            fetch=fetch,
            fetchrow=fetchrow,
            fetchval=fetchval,
            copy_records_to_table=copy,
        ):
            yield

    async def note(self, connection: Any, query: str, args: Sequence[Any], outcome: str) -> None:
        """A statement with its arguments in place of the placeholders."""
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
    """Record a session on a new database: statements, each followed by a comment with its outcome."""
    store = await PostgresStore.connect(url)
    recorder = Recorder()
    with recorder.recording():
        await session(store)
        await store.close()
    return recorder.lines
