"""Who may use what, and limits that hold for the cluster, on PostgreSQL, as the port has them.

How something is taken from a limit is in `limits.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from mainspring.core.fairness.freezes import FreezeKind, FreezeRow
from mainspring.core.fairness.pools import Policy, PoolRow
from mainspring.core.fairness.quotas import P0Grant, QuotaRow
from mainspring.core.fairness.sharing_rules import AllRules
from mainspring.core.limits.concurrency_groups import GroupRow, limit_of
from mainspring.core.limits.limit_shares import ShareRow, grant
from mainspring.core.limits.rate_grants import LimitRow, RateGrant, RateRequest
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.task import Priority
from mainspring.protocol.errors import Fenced
from mainspring.store.ports.terms import Term
from mainspring.store.postgres import rows
from mainspring.store.postgres.admin import change, keep, put
from mainspring.store.postgres.audit import write_audit
from mainspring.store.postgres.connection.calls import PostgresCalls
from mainspring.store.postgres.connection.connection_pool import Connection, transaction
from mainspring.store.postgres.limits import holding
from mainspring.store.postgres.queries import NOW, SNAPSHOT, ensure_shard
from mainspring.store.postgres.rows import as_json, from_json
from mainspring.store.sql import sharing_statements as statements
from mainspring.store.sql.loading import all_rules
from mainspring.store.sql.sharing_statements import RuleTable

S = TypeVar("S", bound=msgspec.Struct)

_PUT = {
    table.struct: put(table.name, table.struct, table.keys)
    for table in (statements.POOLS, statements.POLICIES, statements.QUOTAS, statements.GROUPS)
}


def _replace(table: RuleTable) -> str:
    source = f"FROM ROWS FROM ({from_json('$1', rows.BY_STRUCT[table.struct])}) AS u"
    return statements.replace(table, value=lambda name: f'u."{name}"', source=source, now=NOW)


_REPLACE = {table.struct: _replace(table) for table in (statements.GRANTS, statements.FREEZES)}

# It holds off an election until the end of the transaction, and so does the fence of a batch.
_IS_LED = f"{statements.IS_LED} FOR SHARE"
_SHARE = f"""
    INSERT INTO limit_shares ({rows.SHARES.select()}) VALUES ($1, $2, $3, $4)
    ON CONFLICT ("limit", holder) DO UPDATE SET granted = excluded.granted, needed = excluded.needed
"""
_SHARES = f'SELECT {rows.SHARES.select()} FROM limit_shares WHERE "limit" = ANY($1::text[]) ORDER BY "limit", holder'
_WAITING_RUNS = f"""
    SELECT p.priority, ({statements.waiting_runs(now=NOW, priority="p.priority", most="$2::bigint")})
    FROM unnest($3::bigint[]) AS p (priority)
"""
# Otherwise a priority of which none is there would be looked for in all runs.
_ALONG_AN_INDEX = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off"


class PostgresSharing(PostgresCalls):
    """The parts of the port that are in `store/ports/sharing.py`."""

    # rules

    async def rules_version(self) -> int:
        """The number of changes."""
        return await self._call(_version)

    async def rules(self) -> AllRules:
        """Everything that was decided."""
        return await self._call(_rules)

    async def put_pool(self, row: PoolRow, expected: int | None, audit: AuditEntry) -> PoolRow:
        """Describe a pool, and make its shard known."""
        return await self._call(_put_pool, row, expected, audit)

    async def put_policy(self, row: Policy, expected: int | None, audit: AuditEntry) -> Policy:
        """Keep a policy."""
        return await self._call(_put, row, expected, audit)

    async def drop_policy(self, name: str, audit: AuditEntry) -> bool:
        """Take a policy away."""
        return await self._call(_drop, statements.POLICIES, [name], audit)

    async def put_quota(self, row: QuotaRow, expected: int | None, audit: AuditEntry) -> QuotaRow:
        """Set a quota."""
        return await self._call(_put, row, expected, audit)

    async def drop_quota(self, tenant: str, pool: str, audit: AuditEntry) -> bool:
        """Take a quota away."""
        return await self._call(_drop, statements.QUOTAS, [tenant, pool], audit)

    async def grant_p0(self, grant: P0Grant, audit: AuditEntry) -> P0Grant:
        """Let a tenant ask for P0."""
        return await self._call(_put_anew, grant, audit)

    async def revoke_p0(self, tenant: str, audit: AuditEntry) -> bool:
        """Take the grant back."""
        return await self._call(_drop, statements.GRANTS, [tenant], audit)

    async def put_group(self, row: GroupRow, expected: int | None, audit: AuditEntry) -> GroupRow:
        """Define a group."""
        return await self._call(_put, row, expected, audit)

    async def drop_group(self, tenant: str, name: str, audit: AuditEntry) -> bool:
        """Take a group away, with its shares."""
        return await self._call(_drop_group, tenant, name, audit)

    async def freeze(self, row: FreezeRow, audit: AuditEntry) -> FreezeRow:
        """Freeze something."""
        return await self._call(_put_anew, row, audit)

    async def unfreeze(self, kind: FreezeKind, subject: str, audit: AuditEntry) -> bool:
        """Let it go on."""
        return await self._call(_drop, statements.FREEZES, [kind.value, subject], audit)

    # limits

    async def take_share(self, term: Term, limit: str, total: int, wanted: int) -> ShareRow:
        """Let a shard have more of a limit."""
        return await self._call(_take_share, term, limit, total, wanted)

    async def shares(self, limits: Sequence[str]) -> list[ShareRow]:
        """All holders of some limits."""
        return rows.SHARES.readable_structs(await self._call(Connection.fetch, _SHARES, limits))

    async def take_rate_grants(self, requests: Sequence[RateRequest]) -> list[RateGrant]:
        """Take from rates."""
        return await self._call_by_key(self._allowances.take, requests) if requests else []

    async def count_intake(self, shard: str, most: int) -> Mapping[Priority, int]:
        """How many runs wait in intake. May take longer than other calls."""
        return await self._call_maintenance(_count_intake, shard, most)


async def _version(connection: Connection) -> int:
    version: int = await connection.fetchval(statements.RULES_VERSION)
    return version


async def _rules(connection: Connection) -> AllRules:
    async with transaction(connection, SNAPSHOT):
        version = await _version(connection)
        found = {field: await connection.fetch(statements.all_of(table)) for field, table in statements.RULES.items()}
    return all_rules(version, found, rows.BY_STRUCT)


async def _put(connection: Connection, row: S, expected: int | None, audit: AuditEntry) -> S:
    async with transaction(connection):
        return await _keep(connection, row, expected, audit)


async def _put_pool(connection: Connection, row: PoolRow, expected: int | None, audit: AuditEntry) -> PoolRow:
    async with transaction(connection):
        await ensure_shard(connection, row.name)
        return await _keep(connection, row, expected, audit)


async def _keep(connection: Connection, row: S, expected: int | None, audit: AuditEntry) -> S:
    kept: S = await keep(connection, _PUT[type(row)], rows.BY_STRUCT[type(row)], row, expected, audit)
    await connection.execute(statements.ONE_CHANGE_MORE)
    return kept


async def _put_anew(connection: Connection, row: S, audit: AuditEntry) -> S:
    """Keep a row in the place of one with the same key."""
    async with transaction(connection):
        found = await connection.fetchrow(_REPLACE[type(row)], as_json([row]))
        assert found is not None
        await write_audit(connection, audit)
        await connection.execute(statements.ONE_CHANGE_MORE)
    kept: S = rows.BY_STRUCT[type(row)].struct(found)
    return kept


async def _drop(connection: Connection, table: RuleTable, key: Sequence[str], audit: AuditEntry) -> bool:
    async with transaction(connection):
        return await _take_away(connection, table, key, audit)


async def _drop_group(connection: Connection, tenant: str, name: str, audit: AuditEntry) -> bool:
    async with transaction(connection):
        was_there = await _take_away(connection, statements.GROUPS, [tenant, name], audit)
        if was_there:
            await connection.execute(statements.DROP_SHARES, limit_of(tenant, name))
    return was_there


async def _take_away(connection: Connection, table: RuleTable, key: Sequence[str], audit: AuditEntry) -> bool:
    was_there = await change(connection, statements.drop(table), key, audit)
    if was_there:
        await connection.execute(statements.ONE_CHANGE_MORE)
    return was_there


async def _take_share(connection: Connection, term: Term, limit: str, total: int, wanted: int) -> ShareRow:
    async def decide(_limits: Mapping[str, LimitRow], _now: datetime) -> ShareRow:
        if await connection.fetchval(_IS_LED, term.shard, term.epoch, term.nonce) is None:
            raise Fenced(f"term {term.epoch} of shard {term.shard} has ended")
        others = rows.SHARES.structs(await connection.fetch(statements.SHARES_OF_LIMIT, limit))
        share = grant(limit, total, others, term.shard, wanted)
        await connection.execute(_SHARE, share.limit, share.holder, share.granted, share.needed)
        return share

    return await holding(connection, [limit], decide)


async def _count_intake(connection: Connection, shard: str, most: int) -> Mapping[Priority, int]:
    async with transaction(connection):
        await connection.execute(_ALONG_AN_INDEX)
        found = await connection.fetch(_WAITING_RUNS, shard, most, list(Priority))
    return {Priority(priority): runs for priority, runs in found}
