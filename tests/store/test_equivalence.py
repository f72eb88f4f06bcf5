"""Both stores give the same answers: SQLite, which most tests use, behaves like PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from datetime import timedelta
from typing import Any

import hypothesis.strategies as st
import msgspec
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec.structs import replace

from mainspring.core.model.batch import Batch, BulkOperation, BulkOperationKind, Checkpoint, TaskChange, WorkerRow
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import FINAL_RUN, Run, RunState
from mainspring.core.model.task import Priority, StopKind, StopRequest, Task, TaskState
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import MainspringError
from mainspring.store.ports.front import RunFilter, TaskFilter, TokenRow
from mainspring.store.ports.store import PRUNABLE, IdempotencyKey, IntakeRequest, KeyedRun, Store, Term
from mainspring.store.postgres.store import PostgresStore
from mainspring.store.sqlite.store import SqliteStore, inline
from tests.store.builders import DAY, HOUR, JOB, NOW, a_run, a_task, a_transition, an_attempt, an_outgoing, new_number
from tests.store.equivalence import empty, play_on_both
from tests.store.test_liveness import a_worker
from tests.store.test_tokens import a_token

Call = Callable[[Store], Coroutine[Any, Any, Any]]

TENANTS = ("a", "b", "B", "é")
TEXTS = st.text(max_size=20) | st.sampled_from(["\0", "\ud800", "a\\b\n\t\"c'", "{}", "\\N", "NULL", ""])
INSTANTS = st.datetimes(timezones=st.just(NOW.tzinfo)).filter(lambda instant: instant.year > 1)
MAYBE = st.none() | INSTANTS


class TwoStores(RuleBasedStateMachine):
    """The same calls on both stores. Both must return the same result, or raise the same error."""

    run_async: Callable[[Coroutine[Any, Any, Any]], Any]
    postgres: PostgresStore

    @initialize()
    def begin(self) -> None:
        self.sqlite = SqliteStore.open(":memory:", clock=SystemClock(), run=inline)
        self.run_async(empty(self.postgres))
        self.runs: list[Run] = []
        self.tasks: dict[str, Task] = {}
        self.attempts: list[str] = []
        self.sent: list[str] = []
        self.term: Term | None = None
        self.number = 0
        self.last: Batch = Batch()
        self.both(lambda store: store.ensure_shard("main"))
        self.both(self.insert_job)

    async def insert_job(self, store: Store) -> None:
        await store.insert_job(JOB)

    def teardown(self) -> None:
        if hasattr(self, "sqlite"):
            self.see_the_same()
            self.run_async(self.sqlite.close())

    def both(self, call: Call) -> Any:
        """Return the result of both, or the type of the error that both raised."""
        answers = [self.run_async(outcome(call(store))) for store in (self.sqlite, self.postgres)]
        assert answers[0] == answers[1]
        return answers[0]

    # leases

    @rule(ttl=st.sampled_from([HOUR, timedelta(0)]))
    def campaign(self, ttl: timedelta) -> None:
        nonce = new_number()

        async def campaign(store: Store) -> Any:
            term = await store.campaign("main", "host", nonce, ttl)
            return term and (term.epoch, term.nonce, term.batch_no)

        won = self.both(campaign)
        if won:
            epoch, nonce, self.number = won
            self.term = Term(shard="main", epoch=epoch, nonce=nonce, batch_no=self.number, granted_at=NOW)

    @rule()
    def release(self) -> None:
        if self.term:
            term = self.term
            self.both(lambda store: store.release(term))

    def commit(self, batch: Batch, number: int | None = None) -> bool:
        """Commit to both, and return whether they accepted it."""
        if self.term is None:
            self.campaign(HOUR)
        assert self.term is not None
        term, number = self.term, self.number + 1 if number is None else number

        async def commit(store: Store) -> str:
            await store.commit(term, number, batch)
            return "taken"

        taken = bool(self.both(commit) == "taken")
        if taken and number == self.number + 1:
            self.number, self.last = number, batch
        return taken

    @rule()
    def commit_again(self) -> None:
        self.commit(self.last, self.number)

    # runs and tasks

    @rule(data=st.data(), count=st.integers(1, 3), key=st.none() | st.sampled_from(["k1", "k2"]))
    def insert_runs(self, data: st.DataObject, count: int, key: str | None) -> None:
        runs = [
            a_run(
                tenant=data.draw(st.sampled_from(TENANTS)), priority=data.draw(st.sampled_from(Priority)),
                params=data.draw(TEXTS), start_at=data.draw(INSTANTS), task_count=data.draw(st.integers(0, 2**63)),
            )
            for _ in range(count)
        ]  # fmt: skip
        given = key and IdempotencyKey(tenant="a", key=key, body_hash=data.draw(st.sampled_from(["h1", "h2"])))
        if self.both(lambda store: store.insert_runs(runs, given or None)) == [run.id for run in runs]:
            self.runs += runs

    @rule(data=st.data(), count=st.integers(0, 4))
    def insert_keyed(self, data: st.DataObject, count: int) -> None:
        requests = [
            KeyedRun(
                run=a_run(params=data.draw(TEXTS)),
                key=IdempotencyKey(
                    tenant="a", key=data.draw(st.sampled_from(["k1", "k2", "k3"])),
                    body_hash=data.draw(st.sampled_from(["h1", "h2"])),
                ),
            )
            for _ in range(count)
        ]  # fmt: skip

        async def insert(store: Store) -> list[str]:
            return [end if isinstance(end, str) else end.code for end in await store.insert_keyed(requests)]

        ends = self.both(insert)
        if isinstance(ends, list):
            self.runs += [request.run for request, end in zip(requests, ends, strict=True) if end == request.run.id]

    @rule(data=st.data(), count=st.integers(0, 3))
    def adopt(self, data: st.DataObject, count: int) -> None:
        if self.runs:
            run = msgspec.structs.replace(data.draw(st.sampled_from(self.runs)), adopted_at=NOW)
            drawn = [a_task(run, data.draw(st.integers(0, 12)), because=data.draw(TEXTS)) for _ in range(count)]
            tasks = list({task.id: task for task in drawn}.values())
            bulk_operation = BulkOperation(
                run_id=run.id, parent="", generation=1, kind=data.draw(st.sampled_from(BulkOperationKind)),
                shard="main",
                total=3, done=data.draw(st.integers(0, 3)), by="b", why="w",
            )  # fmt: skip
            transitions = [a_transition(task) for task in tasks]
            if self.commit(
                Batch(runs=[run], new_tasks=tasks, transitions=transitions, bulk_operations=[bulk_operation])
            ):
                self.tasks.update({task.id: task for task in tasks})

    @rule(data=st.data())
    def change_run(self, data: st.DataObject) -> None:
        if self.runs:
            changed = msgspec.structs.replace(
                data.draw(st.sampled_from(self.runs)),
                state=data.draw(st.sampled_from(RunState)),
                adopted_at=data.draw(MAYBE), started_at=data.draw(MAYBE), ended_at=data.draw(MAYBE),
                priority=data.draw(st.sampled_from(Priority)), held=data.draw(st.none() | TEXTS),
                paused=data.draw(st.booleans()), because=data.draw(TEXTS),
            )  # fmt: skip
            self.commit(Batch(runs=[changed]))

    @rule(data=st.data(), stale=st.booleans(), count=st.integers(1, 3))
    def change_tasks(self, data: st.DataObject, stale: bool, count: int) -> None:
        if not self.tasks:
            return
        ids = data.draw(st.lists(st.sampled_from(sorted(self.tasks)), unique=True, min_size=1, max_size=count))
        changes = []
        for old in (self.tasks[task_id] for task_id in ids):
            stop = StopRequest(data.draw(st.sampled_from(StopKind)), "by", data.draw(TEXTS), NOW)
            new = msgspec.structs.replace(
                old, state=data.draw(st.sampled_from(TaskState)), seq=old.seq + 1,
                attempt_id=data.draw(st.none() | st.sampled_from(["att_1", "att_2"])), due_at=data.draw(MAYBE),
                stop=data.draw(st.sampled_from([None, stop])), output=data.draw(st.none() | st.text(max_size=10)),
            )  # fmt: skip
            changes.append(TaskChange(new, old.state, old.seq + stale))
        attempt = an_attempt(changes[0].task, ended_at=data.draw(INSTANTS))
        if self.commit(Batch(tasks=changes, attempts=[attempt])):
            self.tasks.update({change.task.id: change.task for change in changes})
            self.attempts.append(attempt.id)

    @rule(data=st.data())
    def archive(self, data: st.DataObject) -> None:
        if self.runs:
            ids = data.draw(st.lists(st.sampled_from([run.id for run in self.runs]), unique=True, max_size=2))
            self.commit(Batch(archived=ids))

    @rule(data=st.data(), document=TEXTS)
    def save(self, data: st.DataObject, document: str) -> None:
        worker = a_worker(
            data.draw(st.sampled_from(["w1", "w2", "W3"])), status=data.draw(st.sampled_from(["ready", "lost"])),
            hold=data.draw(st.sampled_from(["", "draining"])), since=data.draw(INSTANTS),
        )  # fmt: skip
        saved = [
            Checkpoint(task_id=task.id, run_id=task.run_id, attempt_id="att_1", document=document, saved_at=NOW)
            for task in list(self.tasks.values())[-2:]
        ]
        self.commit(Batch(workers=[worker], checkpoints=saved))

    # without a shard

    @rule(token=st.builds(a_token, id=st.sampled_from("tu"), hash=st.sampled_from("hi"), name=TEXTS))
    def keep_a_token(self, token: TokenRow) -> None:
        self.both(lambda store: store.insert_token(token))

    @rule(shard=st.sampled_from(["main", "other"]), limit=st.integers(1, 3))
    def watch_workers(self, shard: str, limit: int) -> None:
        self.both(lambda store: self.silent_workers(store, shard, limit))

    async def silent_workers(self, store: Store, shard: str, limit: int) -> Any:
        found = await store.silent_workers(shard, timedelta(0), limit, HOUR)
        await store.record_heartbeats(shard, ["w1", "w2"])
        return [worker.id for worker in found], len(await store.silent_workers(shard, HOUR, limit, HOUR))

    # outbox and sweeps

    @rule(data=st.data(), count=st.integers(1, 3))
    def send(self, data: st.DataObject, count: int) -> None:
        rows = [
            an_outgoing(key=data.draw(st.sampled_from("xy")), created_at=data.draw(INSTANTS), payload=data.draw(TEXTS))
            for _ in range(count)
        ]
        self.commit(Batch(outbox=rows))
        self.sent += [row.id for row in rows]

    @rule(data=st.data(), lease=st.sampled_from([HOUR, timedelta(0)]))
    def deliver(self, data: st.DataObject, lease: timedelta) -> None:
        holder = data.draw(st.sampled_from(["h1", "h2"]))
        limit = data.draw(st.integers(1, 3))
        taken = self.both(lambda store: store.claim_outbox(holder, limit, lease))
        for row in taken:
            if data.draw(st.booleans()):
                self.deliver_one(row.id)
            else:
                self.postpone_one(row.id, data.draw(st.sampled_from([HOUR, timedelta(0)])))

    def deliver_one(self, outgoing: str) -> None:
        self.both(lambda store: store.delivered([outgoing]))

    def postpone_one(self, outgoing: str, delay: timedelta) -> None:
        self.both(lambda store: store.postpone(outgoing, delay, "no"))

    @rule(what=st.sampled_from(PRUNABLE), age=st.sampled_from([DAY, 365 * DAY, -HOUR]))
    def prune(self, what: str, age: timedelta) -> None:
        self.both(lambda store: store.prune(what, age))

    # queries

    @rule()
    def see_the_same(self) -> None:
        wants = [IntakeRequest(priority, tenant, 2) for priority in Priority for tenant in TENANTS]
        self.both(self.shards)
        self.both(self.load)
        self.both(lambda store: store.waiting("main", 2))
        self.both(lambda store: store.waiting("main", 5, "a"))
        self.both(lambda store: store.intake("main", wants))
        self.both(lambda store: store.next_start("main"))
        self.both(lambda store: store.ended_runs("main", DAY, 3))
        self.both(lambda store: self.attempts_of(store, [*self.attempts, "att_1", "att_2"]))
        for run in self.runs[-3:]:
            self.see_the_same_run(run.id)
        for task in list(self.tasks)[-3:]:
            self.see_the_same_task(task)

    async def load(self, store: Store) -> Any:
        found = await store.load("main")
        return replace(found, workers=without_clock(found.workers), jobs=without_time(found.jobs))

    async def load_run(self, store: Store, run_id: str) -> Any:
        found = await store.load_run(run_id)
        return replace(found, jobs=without_time(found.jobs))

    async def workers(self, store: Store, limit: int) -> Any:
        return without_clock(await store.list_workers("main", "w1", limit))

    @rule(data=st.data(), limit=st.integers(1, 5))
    def list_the_same(self, data: st.DataObject, limit: int) -> None:
        tenant = data.draw(st.none() | st.sampled_from(TENANTS) | TEXTS)
        runs = RunFilter(
            tenant=tenant, states=tuple(data.draw(st.sets(st.sampled_from(RunState)))),
            priority=data.draw(st.none() | st.sampled_from(Priority)),
            before=data.draw(st.sampled_from([None, *(run.id for run in self.runs)])),
        )  # fmt: skip
        tasks = TaskFilter(
            tenant=tenant, states=tuple(data.draw(st.sets(st.sampled_from(TaskState)))),
            run_id=data.draw(st.sampled_from([None, *(run.id for run in self.runs)])),
            after=data.draw(st.sampled_from(["", *self.tasks])),
        )  # fmt: skip
        self.both(lambda store: store.list_runs(runs, limit))
        self.both(lambda store: store.list_tasks(tasks, limit))
        self.both(lambda store: store.transitions_after("main", limit, 0, limit))
        self.both(lambda store: self.workers(store, limit))
        self.both(lambda store: store.list_tokens(None))

    def see_the_same_task(self, task_id: str) -> None:
        self.both(lambda store: store.find_task(task_id))
        self.both(lambda store: store.attempts_of(task_id))
        self.both(lambda store: store.transitions_of(task_id))
        self.both(lambda store: store.checkpoint(task_id))

    def see_the_same_run(self, run_id: str) -> None:
        self.both(lambda store: store.run(run_id))
        self.both(lambda store: store.find_run(run_id))
        self.both(lambda store: store.tasks(run_id))
        self.both(lambda store: self.load_run(store, run_id))

    async def shards(self, store: Store) -> Any:
        return [(shard.id, shard.leader, shard.epoch, shard.batch_no) for shard in await store.shards()]

    async def attempts_of(self, store: Store, ids: list[str]) -> Any:
        return sorted(map(repr, await store.find_attempts(ids)))


def without_clock(workers: list[WorkerRow]) -> list[WorkerRow]:
    """Compare workers without the times of heartbeats: each store has its own clock."""
    return [replace(worker, last_heartbeat_at=worker.since) for worker in workers]


def without_time(jobs: Iterable[JobRow]) -> list[JobRow]:
    """Compare without creation times."""
    return [replace(job, created_at=None) for job in jobs]


async def outcome(call: Coroutine[Any, Any, Any]) -> Any:
    """The result of a call, or the type of its error."""
    try:
        return await call
    except MainspringError as error:
        return type(error)


def test_both_stores_answer_alike(postgres_url: str) -> None:
    play_on_both(TwoStores, postgres_url, examples=25, steps=25)


def test_final_states_in_the_schema_are_those_of_core() -> None:
    """The index of active runs contains the list of states; a new state needs a migration."""
    assert sorted(FINAL_RUN) == ["CANCELLED", "FAILED", "PARTIAL", "SUCCEEDED", "TIMED_OUT"]
