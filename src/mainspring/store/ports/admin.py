"""The part of the store's port for those who look after an installation: audit, tenants, settings, webhooks.

The promises at the top of `store/ports/store.py` hold here too. A method that changes something for somebody takes the
entry of the audit log that tells of it, and writes it in the same transaction: if it raises, there is no entry either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from mainspring.core.model.audit_entry import AuditEntry, AuditRow, ChainHead
from mainspring.core.model.batch import OutboxRow

Seal = Callable[[Sequence[AuditEntry], Mapping[str, ChainHead]], list[AuditRow]]
"""`core.audit_trail.seal`."""


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries of the audit log are wanted; what is not said does not matter."""

    tenant: str | None = None
    """Whose chain."""
    actor: str | None = None
    action: str | None = None
    object: str | None = None
    since: datetime | None = None
    before: datetime | None = None


class TenantRow(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant, as somebody described it. The fields are the columns of `tenants`, in the same order."""

    name: str
    title: str
    """Its name for people."""
    contact: str
    """Whom to ask."""
    note: str
    version: int
    """Counts the changes; 0 of one that has work, and that nobody has described."""
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str


class SettingOverride(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that somebody changed at run time (OPS-5). The fields are the columns of `setting_overrides`."""

    name: str
    value: str
    version: int
    updated_at: datetime
    updated_by: str
    why: str


class WebhookRow(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody outside who is told how runs end. The fields are the columns of `webhooks`, in the same order.

    What signs the messages is made from the id (`api/auth/tokens.py`), and not kept.
    """

    id: str
    tenant: str
    url: str
    events: tuple[str, ...]
    """Which ends, such as `run.failed`; empty for all."""
    job: str
    """Of which job's runs; empty for all."""
    enabled: bool
    note: str
    version: int
    created_at: datetime
    created_by: str


class DeliveryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One message to a webhook, and what became of it. The fields are the columns of `webhook_deliveries`."""

    id: str
    """`msg_..`: the `webhook-id` of the message, the same each time that it is sent."""
    webhook_id: str
    tenant: str
    type: str
    subject: str
    """The run."""
    body: str
    created_at: datetime
    state: str
    """`waiting`, `delivered` or `failed`."""
    tries: int
    status: int | None
    """What the receiver answered last."""
    fault: str
    last_at: datetime | None
    """When it was last tried."""


class Audit(Protocol):
    """For the audit log (SEC-4).

    An entry with the id of one that was written less than a day ago is that one: a call that is repeated leaves one.
    """

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        """Write entries of their own: for acts that change no other row."""
        ...

    async def seal_audit(self, limit: int, seal: Seal) -> list[ChainHead]:
        """Seal entries that are not, the oldest first; the heads of the chains that grew. Empty: nothing was left.

        `seal` is given the entries and the heads of their chains, and says their numbers and hashes. Two servers that
        do this at once do it one after the other.
        """
        ...

    async def list_audit(self, wanted: AuditFilter, before: tuple[datetime, str] | None, limit: int) -> list[AuditRow]:
        """Entries by time and id, the latest first, those behind `before`; also those that are not sealed yet."""
        ...

    async def audit_chain(self, tenant: str, after: int, limit: int) -> list[AuditRow]:
        """The sealed entries of a tenant's chain whose number is above `after`, in order.

        At most `limit` numbers; all entries of each, should somebody have slipped in one with the number of another.
        """
        ...

    async def audit_heads(self, after: str, limit: int) -> list[ChainHead]:
        """The heads of the chains, by tenant, of tenants that sort behind `after`."""
        ...


class Tenants(Protocol):
    """For who owns work."""

    async def put_tenant(self, row: TenantRow, expected: int | None, audit: AuditEntry) -> TenantRow:
        """Describe a tenant; the row as it is then, with `version` one more than it was.

        Raises Outdated, having written nothing, if `expected` is said and is not the version that it has (0: it has not
        been described). Times, and who made it first, are the store's business.
        """
        ...

    async def find_tenant(self, name: str) -> TenantRow | None:
        """A tenant that was described, or has a job, a schedule or a token; None if nobody has ever named it."""
        ...

    async def list_tenants(self, after: str, limit: int) -> list[TenantRow]:
        """The same for all, by name, those behind `after`."""
        ...


class SettingOverrides(Protocol):
    """For settings at run time (OPS-5)."""

    async def setting_overrides(self) -> list[SettingOverride]:
        """All that were changed, by name."""
        ...

    async def put_setting_override(
        self, row: SettingOverride, expected: int | None, audit: AuditEntry
    ) -> SettingOverride:
        """Change a setting; `version` and `updated_at` are the store's. Raises Outdated as `put_tenant` does."""
        ...

    async def drop_setting_override(self, name: str, audit: AuditEntry) -> bool:
        """Let a setting be what it is by default; False if it was, and then there is no entry."""
        ...


class Webhooks(Protocol):
    """For those outside who are told how runs end."""

    async def put_webhook(self, row: WebhookRow, expected: int | None, audit: AuditEntry) -> WebhookRow:
        """Keep a webhook, new or changed; `version` is the store's. Raises Outdated as `put_tenant` does."""
        ...

    async def find_webhook(self, id: str) -> WebhookRow | None:
        """A webhook."""
        ...

    async def list_webhooks(self, tenant: str | None, after: str, limit: int) -> list[WebhookRow]:
        """Webhooks by id, those behind `after`."""
        ...

    async def drop_webhook(self, id: str, audit: AuditEntry) -> bool:
        """Take a webhook away; False if there is none. Nobody finds its messages any more, and sweeps take them."""
        ...

    async def add_deliveries(
        self, rows: Sequence[DeliveryRow], outgoing: Sequence[OutboxRow], audit: AuditEntry | None = None
    ) -> None:
        """Keep messages that are to be sent, and for each, in the same order, what sends it.

        One that is there already is left, and nothing sends it again.
        """
        ...

    async def record_delivery(self, id: str, *, state: str, status: int | None, fault: str) -> None:
        """What became of a message just now: one try more."""
        ...

    async def resend(self, id: str, outgoing: OutboxRow, audit: AuditEntry) -> bool:
        """Let a message be sent once more: it waits again. False if there is none."""
        ...

    async def find_delivery(self, id: str) -> DeliveryRow | None:
        """One message."""
        ...

    async def list_deliveries(self, webhook_id: str, before: str, limit: int) -> list[DeliveryRow]:
        """The messages of a webhook by id, the latest first, those behind `before` if it is given."""
        ...
