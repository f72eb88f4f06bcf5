"""Tables of the audit log, settings, webhooks, join tokens and worker certificates."""

from __future__ import annotations

from mainspring.cli.render.output import Column, Table
from mainspring.cli.render.tables import format_json
from mainspring.protocol.rest.admin import (
    AuditFaultView,
    AuditView,
    DeliveryView,
    HeadView,
    IdentityView,
    JoinTokenView,
    SettingView,
    VerificationView,
    WebhookView,
)

AUDIT: Table[AuditView] = Table(
    [
        Column("at", lambda entry, _: entry.at),
        Column("actor", lambda entry, _: entry.actor),
        Column("action", lambda entry, _: entry.action),
        Column("object", lambda entry, _: entry.object),
        Column("tenant", lambda entry, _: entry.tenant),
        Column("reason", lambda entry, _: entry.why),
        Column("id", lambda entry, _: entry.id, wide=True),
        Column("source", lambda entry, _: entry.source, wide=True),
        Column("seq", lambda entry, _: entry.seq or None, wide=True),
        Column("before", lambda entry, _: format_json(entry.before), wide=True),
        Column("after", lambda entry, _: format_json(entry.after), wide=True),
    ],
    id=lambda entry: entry.id,
)
HEADS: Table[HeadView] = Table(
    [
        Column("tenant", lambda head, _: head.tenant),
        Column("seq", lambda head, _: head.seq),
        Column("hash", lambda head, _: head.hash),
    ],
    id=lambda head: head.tenant,
)
CHAINS: Table[VerificationView] = Table(
    [
        Column("tenant", lambda chain, _: chain.tenant),
        Column("entries", lambda chain, _: chain.entries),
        Column("first", lambda chain, _: chain.first_seq or None),
        Column("last", lambda chain, _: None if chain.head is None else chain.head.seq),
        Column("faults", lambda chain, _: len(chain.faults)),
    ],
    id=lambda chain: chain.tenant,
)
AUDIT_FAULTS: Table[AuditFaultView] = Table(
    [
        Column("tenant", lambda fault, _: fault.tenant),
        Column("seq", lambda fault, _: fault.seq),
        Column("entry", lambda fault, _: fault.id),
        Column("problem", lambda fault, _: fault.why),
    ],
    id=lambda fault: f"{fault.tenant}/{fault.seq}",
)
SETTINGS: Table[SettingView] = Table(
    [
        Column("name", lambda setting, _: setting.name),
        Column("value", lambda setting, _: str(setting.value)),
        Column("default", lambda setting, _: str(setting.default)),
        Column("origin", lambda setting, _: setting.origin),
        Column("detail", lambda setting, _: setting.about),
        Column("min", lambda setting, _: f"{setting.minimum:g}", wide=True),
        Column("max", lambda setting, _: f"{setting.maximum:g}", wide=True),
        Column("version", lambda setting, _: setting.version, wide=True),
        Column("updated", lambda setting, _: setting.updated_at, wide=True),
        Column("updated_by", lambda setting, _: setting.updated_by, wide=True),
    ],
    id=lambda setting: setting.name,
)
WEBHOOKS: Table[WebhookView] = Table(
    [
        Column("id", lambda webhook, _: webhook.id),
        Column("url", lambda webhook, _: webhook.url),
        Column("events", lambda webhook, _: ",".join(webhook.events) or "all"),
        Column("job", lambda webhook, _: webhook.job),
        Column("enabled", lambda webhook, _: "yes" if webhook.enabled else "no"),
        Column("tenant", lambda webhook, _: webhook.tenant),
        Column("detail", lambda webhook, _: webhook.note),
        Column("version", lambda webhook, _: webhook.version, wide=True),
        Column("created", lambda webhook, _: webhook.created_at, wide=True),
        Column("created_by", lambda webhook, _: webhook.created_by, wide=True),
    ],
    id=lambda webhook: webhook.id,
)
DELIVERIES: Table[DeliveryView] = Table(
    [
        Column("id", lambda message, _: message.id),
        Column("type", lambda message, _: message.type),
        Column("subject", lambda message, _: message.subject),
        Column("state", lambda message, _: message.state),
        Column("attempts", lambda message, _: message.tries),
        Column("status", lambda message, _: message.status),
        Column("last", lambda message, _: message.last_at),
        Column("problem", lambda message, _: message.fault),
        Column("created", lambda message, _: message.created_at, wide=True),
        Column("body", lambda message, _: format_json(message.body), wide=True),
    ],
    id=lambda message: message.id,
)
JOIN_TOKENS: Table[JoinTokenView] = Table(
    [
        Column("id", lambda token, _: token.id),
        Column("name", lambda token, _: token.name),
        Column("pools", lambda token, _: ",".join(token.pools)),
        Column("uses_left", lambda token, _: token.uses_left),
        Column("expires", lambda token, _: token.expires_at),
        Column("revoked", lambda token, _: token.revoked_at),
        Column("created", lambda token, _: token.created_at, wide=True),
        Column("created_by", lambda token, _: token.created_by, wide=True),
    ],
    id=lambda token: token.id,
)
IDENTITIES: Table[IdentityView] = Table(
    [
        Column("worker", lambda one, _: one.name),
        Column("pools", lambda one, _: ",".join(one.pools)),
        Column("renewed", lambda one, _: one.renewed_at),
        Column("expires", lambda one, _: one.expires_at),
        Column("revoked", lambda one, _: one.revoked_at),
        Column("joined", lambda one, _: one.enrolled_at, wide=True),
        Column("join_token", lambda one, _: one.join_token, wide=True),
        Column("serial", lambda one, _: one.serial, wide=True),
    ],
    id=lambda one: one.name,
)
