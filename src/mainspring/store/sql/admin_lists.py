"""What both stores answer about the audit log, tenants, settings and webhooks alike, as in `schedule_lists.py`."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol, TypeVar

import msgspec

from mainspring.core.model.audit_entry import AuditRow, ChainHead
from mainspring.store.ports.admin import AuditFilter, DeliveryRow, SettingOverride, TenantRow, WebhookRow
from mainspring.store.sql import admin_statements as statements
from mainspring.store.sql.lists import Listing

S = TypeVar("S", bound=msgspec.Struct)


class AdminLists(Protocol):
    """The parts of the port that only read, on top of what an adapter reads with."""

    async def _listed(self, struct: type[S], wanted: Listing) -> list[S]:
        """The structs that a statement finds."""
        ...

    async def _listed_readable(self, struct: type[S], wanted: Listing) -> list[S]:
        """The structs that a statement finds, without those that can't be read."""
        ...

    async def list_audit(self, wanted: AuditFilter, before: tuple[datetime, str] | None, limit: int) -> list[AuditRow]:
        """Entries by time, the latest first."""
        return await self._listed(AuditRow, statements.audit(wanted, before, limit))

    async def audit_chain(self, tenant: str, after: int, limit: int) -> list[AuditRow]:
        """The next part of a chain."""
        return await self._listed(AuditRow, statements.audit_chain(tenant, after, limit))

    async def audit_heads(self, after: str, limit: int) -> list[ChainHead]:
        """Where chains end."""
        return await self._listed(ChainHead, statements.audit_heads(after, limit))

    async def find_tenant(self, name: str) -> TenantRow | None:
        """A tenant that somebody has named."""
        found = await self._listed(TenantRow, statements.tenant(name))
        return found[0] if found else None

    async def list_tenants(self, after: str, limit: int) -> list[TenantRow]:
        """Tenants by name."""
        return await self._listed(TenantRow, statements.tenants(after, limit))

    async def setting_overrides(self) -> list[SettingOverride]:
        """Settings that were changed."""
        return await self._listed_readable(SettingOverride, statements.setting_overrides())

    async def find_webhook(self, id: str) -> WebhookRow | None:
        """A webhook."""
        found = await self._listed(WebhookRow, statements.webhook(id))
        return found[0] if found else None

    async def list_webhooks(self, tenant: str | None, after: str, limit: int) -> list[WebhookRow]:
        """Webhooks by id."""
        return await self._listed_readable(WebhookRow, statements.webhooks(tenant, after, limit))

    async def find_delivery(self, id: str) -> DeliveryRow | None:
        """One message."""
        found = await self._listed(DeliveryRow, statements.delivery(id))
        return found[0] if found else None

    async def list_deliveries(self, webhook_id: str, before: str, limit: int) -> list[DeliveryRow]:
        """The messages of a webhook."""
        return await self._listed(DeliveryRow, statements.deliveries(webhook_id, before, limit))
