"""Sharing rules, limits and their notifications: both stores give the same answers (`test_equivalence.py` has the
rest).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec.structs import replace

from mainspring.core.fairness.freezes import FreezeKind, FreezeRow
from mainspring.core.fairness.pools import Policy, PoolRow
from mainspring.core.fairness.quotas import Ceiling, P0Grant, Quota, QuotaRow
from mainspring.core.limits.concurrency_groups import GroupRow
from mainspring.core.limits.limit_shares import ShareRow
from mainspring.core.model.decisions import DecisionKind, PreemptedTask
from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Priority
from mainspring.protocol.clock import SystemClock
from mainspring.store.ports.front import DecisionFilter
from mainspring.store.ports.store import Store
from mainspring.store.postgres.store import PostgresStore
from mainspring.store.sqlite.store import SqliteStore, inline
from tests.store.admin_builders import an_entry
from tests.store.builders import HOUR, NOW, Leader, a_decision, a_run, a_task
from tests.store.equivalence import empty, play_on_both
from tests.store.sharing_builders import (
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
from tests.store.test_equivalence import INSTANTS, TENANTS, TEXTS, Call, outcome

NAMES = st.sampled_from(["a", "A", "ä", ""]) | TEXTS
VERSIONS = st.sampled_from([None, 0, 1, 2])
UNTIL = st.none() | st.just(NOW + HOUR)
SHARDS = st.sampled_from(["main", "other"])
LIMITS = st.sampled_from(["group:a/a", "group:a/A", "x"])
AMOUNTS = st.integers(0, 9)
WORKERS = st.sampled_from([None, "w1", "W1"])
QUOTAS = st.builds(
    Quota,
    weight=st.floats(0.1, 10.0),
    max_tasks=st.none() | AMOUNTS,
    guaranteed=st.builds(Resources, cpu_millis=AMOUNTS),
    burst=st.builds(Ceiling, gpus=st.none() | AMOUNTS),
)


class TwoFleets(RuleBasedStateMachine):
    """The same calls on both, and the answers without times: each store has its own clock."""

    run_async: Callable[[Coroutine[Any, Any, Any]], Any]
    postgres: PostgresStore

    @initialize()
    def begin(self) -> None:
        self.sqlite = SqliteStore.open(":memory:", clock=SystemClock(), run=inline)
        self.run_async(empty(self.postgres))
        self.since = self.run_async(self.sqlite.time())
        self.leaders: dict[tuple[Store, str], Leader] = {
            (store, shard): self.run_async(Leader.of(store, shard))
            for store in (self.sqlite, self.postgres)
            for shard in ("main", "other")
        }

    def teardown(self) -> None:
        if hasattr(self, "sqlite"):
            self.see_the_same()
            self.run_async(self.sqlite.close())

    def both(self, call: Call) -> Any:
        """Return the result of both, or the type of the error that both raised."""
        answers = [timeless(self.run_async(outcome(call(store)))) for store in (self.sqlite, self.postgres)]
        assert answers[0] == answers[1]
        return answers[0]

    @rule(row=st.builds(a_pool, name=NAMES, labels=TEXTS, zones=st.tuples() | st.tuples(TEXTS)), expected=VERSIONS)
    def describe_a_pool(self, row: PoolRow, expected: int | None) -> None:
        entry = an_entry()
        self.both(lambda store: store.put_pool(row, expected, entry))

    @rule(row=st.builds(a_policy, name=NAMES, value=TEXTS), expected=VERSIONS)
    def keep_a_policy(self, row: Policy, expected: int | None) -> None:
        entry = an_entry()
        self.both(lambda store: store.put_policy(row, expected, entry))

    @rule(row=st.builds(a_quota, tenant=st.sampled_from(TENANTS), pool=NAMES, quota=QUOTAS), expected=VERSIONS)
    def set_a_quota(self, row: QuotaRow, expected: int | None) -> None:
        entry = an_entry()
        self.both(lambda store: store.put_quota(row, expected, entry))

    @rule(row=st.builds(a_grant, tenant=NAMES, until=UNTIL))
    def grant(self, row: P0Grant) -> None:
        entry = an_entry()
        self.both(lambda store: store.grant_p0(row, entry))

    @rule(
        row=st.builds(a_group, tenant=st.just("a"), name=NAMES, most=AMOUNTS, per_seconds=st.none() | st.floats(1, 9)),
        expected=VERSIONS,
    )
    def define_a_group(self, row: GroupRow, expected: int | None) -> None:
        entry = an_entry()
        self.both(lambda store: store.put_group(row, expected, entry))

    @rule(row=st.builds(a_freeze, kind=st.sampled_from(FreezeKind), subject=NAMES, until=UNTIL))
    def freeze(self, row: FreezeRow) -> None:
        entry = an_entry()
        self.both(lambda store: store.freeze(row, entry))

    @rule(name=NAMES, tenant=st.sampled_from(TENANTS), kind=st.sampled_from(FreezeKind))
    def take_away(self, name: str, tenant: str, kind: FreezeKind) -> None:
        entries = [an_entry() for _ in range(5)]
        self.both(lambda store: store.drop_policy(name, entries[0]))
        self.both(lambda store: store.drop_quota(tenant, name, entries[1]))
        self.both(lambda store: store.revoke_p0(name, entries[2]))
        self.both(lambda store: store.drop_group("a", name, entries[3]))
        self.both(lambda store: store.unfreeze(kind, name, entries[4]))

    @rule(shard=SHARDS, limit=LIMITS, total=AMOUNTS, wanted=AMOUNTS)
    def take_a_share(self, shard: str, limit: str, total: int, wanted: int) -> None:
        self.both(lambda store: store.take_share(self.leaders[store, shard].term, limit, total, wanted))

    @rule(shard=SHARDS, shares=st.lists(st.builds(a_share, limit=LIMITS, granted=AMOUNTS, needed=AMOUNTS), max_size=3))
    def lower_shares(self, shard: str, shares: list[ShareRow]) -> None:
        latest = list({share.limit: share for share in shares}.values())
        self.both(lambda store: self.commit(store, shard, shares=latest))

    @rule(shard=SHARDS, tenant=NAMES, failures=AMOUNTS, hours=st.integers(0, 2))
    def count_failures(self, shard: str, tenant: str, failures: int, hours: int) -> None:
        failure_count = a_tally(shard=shard, tenant=tenant, since=self.since - hours * HOUR, failures=failures)
        self.both(lambda store: self.commit(store, shard, failure_counts=[failure_count]))

    @rule(why=TEXTS, at=INSTANTS, score=st.none() | st.floats(-9, 9), worker=WORKERS, tenant=st.sampled_from(TENANTS))
    def record_a_decision(self, why: str, at: datetime, score: float | None, worker: str | None, tenant: str) -> None:
        victim = PreemptedTask(task_id=why, tenant="b", priority=Priority.P2, lost_seconds=0.5)
        decision = a_decision(
            a_task(a_run(tenant=tenant)), at=at, why=why, score=score, worker_id=worker,
            free=None if worker is None else Resources(gpus=1), victims=(victim,) if why else (),
        )  # fmt: skip
        self.both(lambda store: self.commit(store, "main", decisions=[decision]))

    @rule(
        wanted=st.builds(
            DecisionFilter, tenant=st.none() | NAMES, worker=WORKERS, since=st.none() | INSTANTS,
            before=st.none() | INSTANTS, kind=st.none() | st.sampled_from(DecisionKind),
        ),
        before=st.none() | st.tuples(INSTANTS, TEXTS),
    )  # fmt: skip
    def list_decisions(self, wanted: DecisionFilter, before: tuple[datetime, str] | None) -> None:
        self.both(lambda store: store.list_decisions(wanted, before, 3))

    @rule(requests=st.lists(st.builds(a_request, limit=LIMITS, most=AMOUNTS, wanted=AMOUNTS), max_size=3))
    def take_rate_grants(self, requests: list[Any]) -> None:
        async def granted(store: Store) -> Any:
            answers = await store.take_rate_grants(requests)
            return [(answer.limit, answer.granted, answer.more_at is None) for answer in answers]

        self.both(granted)

    @rule()
    def see_the_same(self) -> None:
        self.both(lambda store: store.rules_version())
        self.both(self.decided)
        self.both(lambda store: store.shares(["group:a/a", "group:a/A", "x"]))
        self.both(lambda store: store.list_decisions(DecisionFilter(), None, 100))
        for shard in ("main", "other"):
            self.see_the_same_shard(shard)

    def see_the_same_shard(self, shard: str) -> None:
        async def loaded(store: Store) -> Any:
            found = await store.load(shard)
            return [*found.shares, *found.failure_counts]

        self.both(loaded)
        self.both(lambda store: store.count_intake(shard, 10))

    async def decided(self, store: Store) -> Any:
        found = await store.rules()
        return [*found.pools, *found.policies, *found.quotas, *found.grants, *found.groups, *found.freezes]

    async def commit(self, store: Store, shard: str, **parts: Any) -> None:
        await self.leaders[store, shard].commit(**parts)


def timeless(answer: Any) -> Any:
    """A result without the times of the store's clock."""
    if isinstance(answer, list):
        return [timeless(one) for one in answer]
    fields = getattr(answer, "__struct_fields__", ())
    if "updated_at" in fields:
        return replace(answer, updated_at=None)
    return replace(answer, since=None) if "by" in fields else answer


def test_both_stores_answer_alike(postgres_url: str) -> None:
    play_on_both(TwoFleets, postgres_url, examples=8, steps=15)
