"""Structs for tests of the audit log, tenants, settings and webhooks, with defaults for everything else."""

from __future__ import annotations

from typing import Any

from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.store.ports.admin import DeliveryRow, SettingOverride, TenantRow, WebhookRow
from tests.store.builders import NOW, new_number


def an_entry(**changes: Any) -> AuditEntry:
    """An audited action."""
    values: dict[str, Any] = {
        "id": f"req_{new_number():016x}", "tenant": "acme", "actor": "token:ann", "source": "192.0.2.7",
        "action": "cancel_run", "object": "run_1", "why": "it is wrong", "after": '{"state":"CANCELLED"}',
    }  # fmt: skip
    return AuditEntry(**(values | changes))


def a_tenant(**changes: Any) -> TenantRow:
    """A described tenant: times and the version are the store's."""
    values: dict[str, Any] = {
        "name": "acme", "title": "Acme Ltd.", "contact": "ann@example.org", "note": "", "version": 0,
        "created_at": EPOCH, "created_by": "token:ann", "updated_at": EPOCH, "updated_by": "token:ann",
    }  # fmt: skip
    return TenantRow(**(values | changes))


def a_measure(**changes: Any) -> SettingOverride:
    """A changed setting."""
    values: dict[str, Any] = {
        "name": "placement.most_per_turn", "value": "50", "version": 0, "updated_at": EPOCH,
        "updated_by": "token:ann", "why": "a busy night",
    }  # fmt: skip
    return SettingOverride(**(values | changes))


def a_webhook(**changes: Any) -> WebhookRow:
    """A webhook."""
    values: dict[str, Any] = {
        "id": f"hook_{new_number():08}", "tenant": "acme", "url": "https://example.org/hook",
        "events": ("run.failed", "run.succeeded"), "job": "", "enabled": True, "note": "", "version": 0,
        "created_at": EPOCH, "created_by": "token:ann",
    }  # fmt: skip
    return WebhookRow(**(values | changes))


def a_delivery(webhook: WebhookRow, **changes: Any) -> DeliveryRow:
    """A webhook message to deliver."""
    values: dict[str, Any] = {
        "id": f"msg_{new_number():08}", "webhook_id": webhook.id, "tenant": webhook.tenant, "type": "run.failed",
        "subject": "run_1", "body": "{}", "created_at": NOW, "state": "waiting", "tries": 0, "status": None,
        "fault": "", "last_at": None,
    }  # fmt: skip
    return DeliveryRow(**(values | changes))
