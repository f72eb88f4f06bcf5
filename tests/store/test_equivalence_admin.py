"""Tenants, settings and webhooks: both stores give the same answers (`test_equivalence.py` has the rest)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec.structs import replace

from mainspring.core.model.audit_entry import AuditEntry, seal
from mainspring.protocol.clock import SystemClock
from mainspring.store.ports.admin import AuditFilter, SettingOverride, TenantRow, WebhookRow
from mainspring.store.ports.store import Store
from mainspring.store.postgres.store import PostgresStore
from mainspring.store.sqlite.store import SqliteStore, inline
from tests.store.admin_builders import a_delivery, a_measure, a_tenant, a_webhook, an_entry
from tests.store.builders import DAY, HOUR, a_job, an_outgoing
from tests.store.equivalence import empty, play_on_both
from tests.store.test_equivalence import TENANTS, TEXTS, Call, outcome
from tests.store.test_tokens import a_token

IDS = st.sampled_from(["req_1", "req_2", "req_3", "req_4"])
VERSIONS = st.sampled_from([None, 0, 1, 2])
NAMES = st.sampled_from(TENANTS) | TEXTS
HOOKS = st.sampled_from(["hook_1", "hook_2", "HOOK"])
MESSAGES = st.sampled_from(["msg_1", "msg_2", "msg_3"])


class TwoOffices(RuleBasedStateMachine):
    """The same calls on both, and the answers without times: each store has its own clock."""

    run_async: Callable[[Coroutine[Any, Any, Any]], Any]
    postgres: PostgresStore

    @initialize()
    def begin(self) -> None:
        self.sqlite = SqliteStore.open(":memory:", clock=SystemClock(), run=inline)
        self.run_async(empty(self.postgres))

    def teardown(self) -> None:
        if hasattr(self, "sqlite"):
            self.see_the_same()
            self.run_async(self.sqlite.close())

    def both(self, call: Call) -> Any:
        """Return the result of both, or the type of the error that both raised."""
        answers = [timeless(self.run_async(outcome(call(store)))) for store in (self.sqlite, self.postgres)]
        assert answers[0] == answers[1]
        return answers[0]

    @rule(entries=st.lists(st.builds(an_entry, id=IDS, tenant=NAMES, object=TEXTS, before=st.none() | TEXTS)))
    def tell(self, entries: list[AuditEntry]) -> None:
        self.both(lambda store: store.record(entries))

    @rule(limit=st.integers(1, 4))
    def seal(self, limit: int) -> None:
        async def grown(store: Store) -> Any:
            return [(head.tenant, head.seq) for head in await store.seal_audit(limit, seal)]

        self.both(grown)

    @rule(row=st.builds(a_tenant, name=NAMES, note=TEXTS), expected=VERSIONS)
    def describe(self, row: TenantRow, expected: int | None) -> None:
        entry = an_entry()
        self.both(lambda store: store.put_tenant(row, expected, entry))

    @rule(tenant=st.sampled_from([*TENANTS, "*", "c"]))
    def name(self, tenant: str) -> None:
        job, token = a_job(tenant=tenant), a_token(tenant=tenant)
        self.both(lambda store: store.insert_token(token))
        if tenant != "*":
            self.both(lambda store: store.insert_job(job))

    @rule(row=st.builds(a_measure, name=st.sampled_from("xy"), value=TEXTS), expected=VERSIONS)
    def change_a_setting(self, row: SettingOverride, expected: int | None) -> None:
        entry = an_entry()
        self.both(lambda store: store.put_setting_override(row, expected, entry))

    @rule(name=st.sampled_from("xyz"))
    def drop_a_setting(self, name: str) -> None:
        entry = an_entry()
        self.both(lambda store: store.drop_setting_override(name, entry))

    @rule(row=st.builds(a_webhook, id=HOOKS, tenant=st.sampled_from(TENANTS), url=TEXTS), expected=VERSIONS)
    def keep_a_webhook(self, row: WebhookRow, expected: int | None) -> None:
        entry = an_entry()
        self.both(lambda store: store.put_webhook(row, expected, entry))

    @rule(id=HOOKS)
    def drop_a_webhook(self, id: str) -> None:
        entry = an_entry()
        self.both(lambda store: store.drop_webhook(id, entry))

    @rule(hook=HOOKS, ids=st.lists(MESSAGES), body=TEXTS)
    def send(self, hook: str, ids: list[str], body: str) -> None:
        rows = [a_delivery(a_webhook(id=hook), id=name, body=body) for name in ids]
        outgoing = [an_outgoing() for _ in ids]
        self.both(lambda store: store.add_deliveries(rows, outgoing))
        self.both(lambda store: store.claim_outbox("host", 10, HOUR))

    @rule(id=MESSAGES, state=st.sampled_from(["waiting", "delivered"]), status=st.none() | st.integers(0, 599))
    def note(self, id: str, state: str, status: int | None) -> None:
        self.both(lambda store: store.record_delivery(id, state=state, status=status, fault=""))

    @rule(id=MESSAGES)
    def resend(self, id: str) -> None:
        outgoing, entry = an_outgoing(), an_entry()
        self.both(lambda store: store.resend(id, outgoing, entry))

    @rule(what=st.sampled_from(["audit", "webhook_deliveries"]), age=st.sampled_from([DAY, -HOUR]))
    def prune(self, what: str, age: timedelta) -> None:
        self.both(lambda store: store.prune(what, age))

    @rule()
    def see_the_same(self) -> None:
        self.both(self.audit)
        self.both(self.heads)
        for tenant in (*TENANTS, "*", "c"):
            self.see_the_same_tenant(tenant)
        self.both(lambda store: store.list_tenants("", 3))
        self.both(lambda store: store.list_tenants("a", 10))
        self.both(lambda store: store.setting_overrides())
        self.both(lambda store: store.list_webhooks(None, "", 10))
        self.both(lambda store: store.list_deliveries("hook_1", "", 10))
        self.both(lambda store: store.list_deliveries("hook_1", "msg_3", 10))
        self.both(lambda store: store.find_delivery("msg_2"))

    def see_the_same_tenant(self, tenant: str) -> None:
        self.both(lambda store: store.find_tenant(tenant))
        self.both(lambda store: self.chain(store, tenant))

    async def audit(self, store: Store) -> Any:
        """The same entries; their order depends on the clock."""
        return sorted((row.id, row.tenant, row.object) for row in await store.list_audit(AuditFilter(), None, 100))

    async def heads(self, store: Store) -> Any:
        return [(head.tenant, head.seq) for head in await store.audit_heads("", 100)]

    async def chain(self, store: Store, tenant: str) -> Any:
        return [row.seq for row in await store.audit_chain(tenant, 0, 100)]


def timeless(answer: Any) -> Any:
    """A result without the times of the store's clock."""
    if isinstance(answer, list):
        return [timeless(one) for one in answer]
    times = {"created_at", "updated_at", "last_at"}.intersection(getattr(answer, "__struct_fields__", ()))
    return replace(answer, **dict.fromkeys(times)) if times else answer


def test_both_stores_answer_alike(postgres_url: str) -> None:
    play_on_both(TwoOffices, postgres_url, examples=8, steps=15)
