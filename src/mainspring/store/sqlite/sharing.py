"""Who may use what, and limits that hold for the cluster, on SQLite, as the port has them.

Nobody else writes meanwhile: nothing has to be locked.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TypeVar

import msgspec

from mainspring.core.fairness.freezes import FreezeKind, FreezeRow
from mainspring.core.fairness.pools import Policy, PoolRow
from mainspring.core.fairness.quotas import P0Grant, QuotaRow
from mainspring.core.fairness.sharing_rules import AllRules
from mainspring.core.limits.concurrency_groups import GroupRow, limit_of
from mainspring.core.limits.limit_shares import ShareRow, grant
from mainspring.core.limits.rate_grants import LimitRow, RateGrant, RateRequest, take
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.task import Priority
from mainspring.protocol.errors import Fenced
from mainspring.store.ports.terms import Term
from mainspring.store.sql import sharing_statements as statements
from mainspring.store.sql.loading import all_rules
from mainspring.store.sql.sharing_statements import RuleTable
from mainspring.store.sqlite import rows
from mainspring.store.sqlite.admin import change, keep, put
from mainspring.store.sqlite.audit import write_audit
from mainspring.store.sqlite.calls import Calls
from mainspring.store.sqlite.lists import find
from mainspring.store.sqlite.queries import GIVEN, ensure_shard, sqlite
from mainspring.store.sqlite.rows import insert_into, instant, refuse_nul

S = TypeVar("S", bound=msgspec.Struct)

_MICROSECOND = timedelta(microseconds=1)
_PUT = {
    table.struct: put(table.name, table.struct, table.keys)
    for table in (statements.POOLS, statements.POLICIES, statements.QUOTAS, statements.GROUPS)
}


def _replace(table: RuleTable) -> str:
    names = table.struct.__struct_fields__
    return statements.replace(table, value=lambda name: f"?{names.index(name) + 1}", now=f"?{len(names) + 1}")


_REPLACE = {table.struct: _replace(table) for table in (statements.GRANTS, statements.FREEZES)}

_SHARE = insert_into(
    "limit_shares",
    rows.SHARES,
    ending="ON CONFLICT DO UPDATE SET granted = excluded.granted, needed = excluded.needed",
)
_SHARES = f'SELECT {rows.SHARES.select()} FROM limit_shares WHERE "limit" {GIVEN} ORDER BY "limit", holder'
_LIMITS = f'SELECT {rows.LIMITS.select()} FROM rate_usage WHERE "limit" {GIVEN}'
_TAKEN = insert_into(
    "rate_usage",
    rows.LIMITS,
    ending="ON CONFLICT DO UPDATE SET takes = excluded.takes, counts_until = excluded.counts_until",
)
_FORGET = f'DELETE FROM rate_usage WHERE "limit" IN ({sqlite(statements.unused_limits("$1"))})'
_WAITING_RUNS = sqlite(statements.waiting_runs(now="$4"))


class SqliteSharing(Calls):
    """The parts of the port that are in `store/ports/sharing.py`."""

    # rules

    async def rules_version(self) -> int:
        """The number of changes."""
        return await self._read(_version)

    async def rules(self) -> AllRules:
        """Everything that was decided."""
        return await self._read(_rules)

    async def put_pool(self, row: PoolRow, expected: int | None, audit: AuditEntry) -> PoolRow:
        """Describe a pool, and make its shard known."""
        return await self._write(_put_pool, row, expected, audit, self._now())

    async def put_policy(self, row: Policy, expected: int | None, audit: AuditEntry) -> Policy:
        """Keep a policy."""
        return await self._write(_put, row, expected, audit, self._now())

    async def drop_policy(self, name: str, audit: AuditEntry) -> bool:
        """Take a policy away."""
        return await self._write(_drop, statements.POLICIES, [name], audit, self._now())

    async def put_quota(self, row: QuotaRow, expected: int | None, audit: AuditEntry) -> QuotaRow:
        """Set a quota."""
        return await self._write(_put, row, expected, audit, self._now())

    async def drop_quota(self, tenant: str, pool: str, audit: AuditEntry) -> bool:
        """Take a quota away."""
        return await self._write(_drop, statements.QUOTAS, [tenant, pool], audit, self._now())

    async def grant_p0(self, grant: P0Grant, audit: AuditEntry) -> P0Grant:
        """Let a tenant ask for P0."""
        return await self._write(_put_anew, grant, audit, self._now())

    async def revoke_p0(self, tenant: str, audit: AuditEntry) -> bool:
        """Take the grant back."""
        return await self._write(_drop, statements.GRANTS, [tenant], audit, self._now())

    async def put_group(self, row: GroupRow, expected: int | None, audit: AuditEntry) -> GroupRow:
        """Define a group."""
        return await self._write(_put, row, expected, audit, self._now())

    async def drop_group(self, tenant: str, name: str, audit: AuditEntry) -> bool:
        """Take a group away, with its shares."""
        return await self._write(_drop_group, tenant, name, audit, self._now())

    async def freeze(self, row: FreezeRow, audit: AuditEntry) -> FreezeRow:
        """Freeze something."""
        return await self._write(_put_anew, row, audit, self._now())

    async def unfreeze(self, kind: FreezeKind, subject: str, audit: AuditEntry) -> bool:
        """Let it go on."""
        return await self._write(_drop, statements.FREEZES, [kind.value, subject], audit, self._now())

    # limits

    async def take_share(self, term: Term, limit: str, total: int, wanted: int) -> ShareRow:
        """Let a shard have more of a limit."""
        return await self._write(_take_share, term, limit, total, wanted)

    async def shares(self, limits: Sequence[str]) -> list[ShareRow]:
        """All holders of some limits."""
        return await self._read(_shares, limits)

    async def take_rate_grants(self, requests: Sequence[RateRequest]) -> list[RateGrant]:
        """Take from rates."""
        return await self._write(_take_rate_grants, requests, self._now()) if requests else []

    async def count_intake(self, shard: str, most: int) -> Mapping[Priority, int]:
        """How many runs wait in intake."""
        return await self._read(_count_intake, shard, most, self._now())


def _version(db: sqlite3.Connection) -> int:
    (version,) = db.execute(statements.RULES_VERSION).fetchone()
    return int(version)


def _rules(db: sqlite3.Connection) -> AllRules:
    found = {field: db.execute(statements.all_of(table)) for field, table in statements.RULES.items()}
    return all_rules(_version(db), found, rows.BY_STRUCT)


def _put(db: sqlite3.Connection, row: S, expected: int | None, audit: AuditEntry, now: int) -> S:
    db.execute(statements.ONE_CHANGE_MORE)
    kept: S = keep(db, _PUT[type(row)], rows.BY_STRUCT[type(row)], row, expected, audit, now)
    return kept


def _put_pool(db: sqlite3.Connection, row: PoolRow, expected: int | None, audit: AuditEntry, now: int) -> PoolRow:
    ensure_shard(db, row.name)
    return _put(db, row, expected, audit, now)


def _put_anew(db: sqlite3.Connection, row: S, audit: AuditEntry, now: int) -> S:
    """Keep a row in the place of one with the same key."""
    codec = rows.BY_STRUCT[type(row)]
    db.execute(statements.ONE_CHANGE_MORE)
    (kept,) = db.execute(_REPLACE[type(row)], (*codec.rows([row])[0], now)).fetchall()
    write_audit(db, now, audit)
    found: S = codec.struct(kept)
    return found


def _drop(db: sqlite3.Connection, table: RuleTable, key: Sequence[str], audit: AuditEntry, now: int) -> bool:
    was_there = change(db, statements.drop(table), key, now, audit)
    if was_there:
        db.execute(statements.ONE_CHANGE_MORE)
    return was_there


def _drop_group(db: sqlite3.Connection, tenant: str, name: str, audit: AuditEntry, now: int) -> bool:
    was_there = _drop(db, statements.GROUPS, [tenant, name], audit, now)
    if was_there:
        find(db, statements.DROP_SHARES, [limit_of(tenant, name)])
    return was_there


def _take_share(db: sqlite3.Connection, term: Term, limit: str, total: int, wanted: int) -> ShareRow:
    if find(db, statements.IS_LED, [term.shard, term.epoch, term.nonce]).fetchone() is None:
        raise Fenced(f"term {term.epoch} of shard {term.shard} has ended")
    others = rows.SHARES.structs(find(db, statements.SHARES_OF_LIMIT, [limit]))
    share = grant(limit, total, others, term.shard, wanted)
    db.execute(_SHARE, rows.SHARES.rows([share])[0])
    return share


def _shares(db: sqlite3.Connection, limits: Sequence[str]) -> list[ShareRow]:
    return rows.SHARES.readable_structs(db.execute(_SHARES, (json.dumps(limits),)))


def _take_rate_grants(db: sqlite3.Connection, requests: Sequence[RateRequest], now: int) -> list[RateGrant]:
    names = sorted({request.limit for request in requests})
    refuse_nul(names)
    known = {row.limit: row for row in rows.LIMITS.structs(db.execute(_LIMITS, (json.dumps(names),)))}
    new = [name for name in names if name not in known]
    if new:
        db.execute(_FORGET, (now,))
        until = instant(now) + statements.NEW_LIMIT_FOR
        known |= {name: LimitRow(limit=name, takes=(), counts_until=until) for name in new}
    answers, changed = take(requests, known, instant(now))
    if changed:
        db.executemany(_TAKEN, rows.LIMITS.rows(changed))
    return answers


def _count_intake(db: sqlite3.Connection, shard: str, most: int, now: int) -> Mapping[Priority, int]:
    return {
        priority: db.execute(_WAITING_RUNS, (shard, int(priority), most, now)).fetchone()[0] for priority in Priority
    }
