"""The audit log, tenants, settings and webhooks, as SQL that both databases understand (as in `lists.py`)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from mainspring.core.model.audit_entry import INSTALLATION, AuditEntry, AuditRow, ChainHead
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.store.ports.admin import AuditFilter, DeliveryRow, SettingOverride, TenantRow, WebhookRow
from mainspring.store.sql.lists import MAX_LISTED, Conditions, Listing, columns

_ENTRY = columns(AuditEntry)
_AUDIT = columns(AuditRow)

UNSEALED = f"SELECT {_ENTRY} FROM audit_unsealed ORDER BY at, id LIMIT $1"

# the audit log


def audit(wanted: AuditFilter, before: tuple[datetime, str] | None, limit: int) -> Listing:
    """The entries that are wanted, backwards, of both tables."""
    where = Conditions(limit)
    for column, value in (
        ("tenant", wanted.tenant), ("actor", wanted.actor), ("action", wanted.action), ("object", wanted.object),
    ):  # fmt: skip
        if value is not None:
            where.require(f"{column} = {{}}", value)
    if wanted.since is not None:
        where.require("at >= {}", wanted.since)
    if wanted.before is not None:
        where.require("at < {}", wanted.before)
    if before is not None:
        where.require("at <= {} AND (at, id) < ({}, {})", before[0], *before)
    some = "SELECT * FROM (SELECT {} FROM {} WHERE {} ORDER BY at DESC, id DESC LIMIT $1) AS {}"
    found = " UNION ALL ".join(
        some.format(what, table, where, table)
        for what, table in ((f"{_ENTRY}, 0 AS seq, '' AS hash", "audit_unsealed"), (_AUDIT, "audit"))
    )
    return Listing(f"SELECT * FROM ({found}) AS told ORDER BY at DESC, id DESC LIMIT $1", where.parameters)


def audit_chain(tenant: str, after: int, limit: int) -> Listing:
    """The next part of a chain. A number that somebody has given twice is there twice, also at the end of the part."""
    part = "SELECT seq FROM audit WHERE tenant = $2 AND seq > $3 ORDER BY seq LIMIT $1"
    return Listing(
        f"""SELECT {_AUDIT} FROM audit
            WHERE tenant = $2 AND seq > $3 AND seq <= (SELECT max(seq) FROM ({part}) AS part) ORDER BY seq, id""",
        [limit, tenant, after],
    )


def audit_heads(after: str, limit: int) -> Listing:
    """Where chains end, by tenant."""
    return Listing(
        f"SELECT {columns(ChainHead)} FROM audit_heads WHERE tenant > $2 ORDER BY tenant LIMIT $1", [limit, after]
    )


# tenants

_NAMED = {
    "tenants": ("name", "true"),
    "jobs": ("tenant", "true"),
    "schedules": ("tenant", "deleted_at IS NULL"),
    "tokens": ("tenant", "true"),
}
"""What makes a tenant known: by table, the column that names it, and of which rows."""


def _tenants(names: str, epoch: str) -> str:
    """The rows of tenants, also of those that nobody has described. `names` is a query of their names."""
    otherwise = dict.fromkeys(TenantRow.__struct_fields__, "''")
    otherwise |= {"name": "named.name", "version": "0", "created_at": epoch, "updated_at": epoch}
    values = ", ".join(f"coalesce(tenants.{name}, {value}) AS {name}" for name, value in otherwise.items())
    return f"""SELECT {values} FROM ({names}) AS named LEFT JOIN tenants ON tenants.name = named.name
        ORDER BY named.name"""


def tenant(name: str) -> Listing:
    """A tenant, if it is known."""
    is_known = " OR ".join(
        f"EXISTS (SELECT 1 FROM {table} WHERE {table}.{column} = $1 AND {which})"
        for table, (column, which) in _NAMED.items()
    )
    names = f"SELECT CAST($1 AS text) AS name WHERE $1 <> '{INSTALLATION}' AND ({is_known})"
    return Listing(_tenants(names, "$2"), [name, EPOCH])


def tenants(after: str, limit: int) -> Listing:
    """Tenants by name: a loose index scan, as of those who have intake (`store/sqlite/queries.py`)."""
    following = " UNION ALL ".join(
        f"SELECT min({table}.{column}) AS name FROM {table} WHERE {table}.{column} > {{after}} AND {which}"
        for table, (column, which) in _NAMED.items()
    )
    first = f"SELECT (SELECT min(known.name) FROM ({following}) AS known)"
    names = f"""
        WITH RECURSIVE names(name) AS (
            {first.format(after="$2")}
            UNION ALL
            {first.format(after="names.name")} FROM names WHERE names.name IS NOT NULL
        )
        SELECT name FROM names WHERE name IS NOT NULL AND name <> '{INSTALLATION}' LIMIT $1
    """
    return Listing(_tenants(names, "$3"), [limit, after, EPOCH])


# what is kept in versions


def put(
    table: str,
    struct: type[msgspec.Struct],
    *,
    value: Callable[[str], str],
    source: str = "",
    expected: str,
    now: str,
    keys: int = 1,
) -> str:
    """Keep a row whose first columns are its key, if its version is the expected one; finds the row as it is then.

    `value` is how the database names what is given for a column, and `source` where that comes from.
    """
    names = struct.__struct_fields__
    key, others = names[:keys], names[keys:]
    is_there = " AND ".join(f"{table}.{name} = {value(name)}" for name in key)
    given = {"version": "1", "created_at": now, "updated_at": now}
    values = ", ".join(given.get(name) or value(name) for name in names)
    changes = ", ".join(
        f"version = {table}.version + 1" if name == "version" else f"{name} = excluded.{name}"
        for name in others
        if name not in ("created_at", "created_by")
    )
    return f"""
        INSERT INTO {table} ({columns(struct)}) SELECT {values} {source}
        WHERE {expected} IS NULL OR {expected} = 0
            OR EXISTS (SELECT 1 FROM {table} WHERE {is_there})
        ON CONFLICT ({", ".join(key)}) DO UPDATE SET {changes} WHERE {expected} IS NULL OR {table}.version = {expected}
        RETURNING {columns(struct)}
    """


# settings


def setting_overrides() -> Listing:
    """What was changed, by name."""
    return Listing(f"SELECT {columns(SettingOverride)} FROM setting_overrides ORDER BY name LIMIT {MAX_LISTED}", [])


DROP_SETTING_OVERRIDE = "DELETE FROM setting_overrides WHERE name = $1 RETURNING name"

# webhooks

WAITING = "waiting"
"""The state of a message that is to be sent."""
IS_OF_A_WEBHOOK = "EXISTS (SELECT 1 FROM webhooks WHERE webhooks.id = webhook_id)"
"""True of a message whose webhook was not taken away."""

DROP_WEBHOOK = "DELETE FROM webhooks WHERE id = $1 RETURNING id"
RESEND = f"""
    UPDATE webhook_deliveries SET state = '{WAITING}' WHERE id = $1 AND {IS_OF_A_WEBHOOK} RETURNING id
"""


def record_delivery(now: str) -> str:
    """One try more. `now` is how the database names the time."""
    return f"""
        UPDATE webhook_deliveries SET state = $2, status = $3, fault = $4, tries = tries + 1, last_at = {now}
        WHERE id = $1
    """


def webhook(id: str) -> Listing:
    """One by its id."""
    return Listing(f"SELECT {columns(WebhookRow)} FROM webhooks WHERE id = $1", [id])


def webhooks(tenant: str | None, after: str, limit: int) -> Listing:
    """Webhooks by id."""
    where = Conditions(limit, after)
    where.require("id > $2")
    if tenant is not None:
        where.require("tenant = {}", tenant)
    return Listing(f"SELECT {columns(WebhookRow)} FROM webhooks WHERE {where} ORDER BY id LIMIT $1", where.parameters)


def delivery(id: str) -> Listing:
    """One message by its id."""
    return Listing(f"SELECT {columns(DeliveryRow)} FROM webhook_deliveries WHERE id = $1 AND {IS_OF_A_WEBHOOK}", [id])


def deliveries(webhook_id: str, before: str, limit: int) -> Listing:
    """The messages of a webhook by id, backwards."""
    where = Conditions(limit, webhook_id)
    where.require(f"webhook_id = $2 AND {IS_OF_A_WEBHOOK}")
    if before:
        where.require("id < {}", before)
    return Listing(
        f"SELECT {columns(DeliveryRow)} FROM webhook_deliveries WHERE {where} ORDER BY id DESC LIMIT $1",
        where.parameters,
    )
