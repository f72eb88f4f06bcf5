"""Who may use what, and limits of the whole cluster, as SQL that both databases understand (as in `lists.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import NamedTuple

import msgspec

from mainspring.core.fairness.freezes import FreezeRow
from mainspring.core.fairness.pools import Policy, PoolRow
from mainspring.core.fairness.quotas import P0Grant, QuotaRow
from mainspring.core.limits.concurrency_groups import GroupRow
from mainspring.core.limits.limit_shares import ShareRow
from mainspring.store.sql.lists import columns
from mainspring.store.sql.statements import IN_INTAKE

# rules


class RuleTable(NamedTuple):
    """A table of what people decided."""

    name: str
    struct: type[msgspec.Struct]
    keys: int = 1
    """So many of the first columns are its key."""

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of its key."""
        return self.struct.__struct_fields__[: self.keys]


POOLS = RuleTable("pools", PoolRow)
POLICIES = RuleTable("policies", Policy)
QUOTAS = RuleTable("quotas", QuotaRow, 2)
GRANTS = RuleTable("p0_grants", P0Grant)
GROUPS = RuleTable("limit_groups", GroupRow, 2)
FREEZES = RuleTable("freezes", FreezeRow, 2)

RULES: Mapping[str, RuleTable] = {
    "pools": POOLS,
    "policies": POLICIES,
    "quotas": QUOTAS,
    "grants": GRANTS,
    "groups": GROUPS,
    "freezes": FREEZES,
}
"""By the fields of `AllRules`."""

RULES_VERSION = "SELECT version FROM rules_version"
ONE_CHANGE_MORE = "UPDATE rules_version SET version = version + 1"


def all_of(table: RuleTable) -> str:
    """All rows, in the order of their key."""
    return f"SELECT {columns(table.struct)} FROM {table.name} ORDER BY {', '.join(table.key)}"


def drop(table: RuleTable) -> str:
    """Take away the row whose key is $1, and $2 if it has two parts."""
    is_it = " AND ".join(f"{name} = ${number}" for number, name in enumerate(table.key, 1))
    return f"DELETE FROM {table.name} WHERE {is_it} RETURNING 1"


def replace(table: RuleTable, *, value: Callable[[str], str], source: str = "", now: str) -> str:
    """Keep a row in the place of one with the same key; finds the row as it is then. As in
    `admin_statements.put`."""
    names = table.struct.__struct_fields__
    values = ", ".join(now if name == "since" else value(name) for name in names)
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in names[table.keys :])
    return f"""
        INSERT INTO {table.name} ({columns(table.struct)}) SELECT {values} {source} WHERE true
        ON CONFLICT ({", ".join(table.key)}) DO UPDATE SET {changes}
        RETURNING {columns(table.struct)}
    """


# limits

IS_LED = "SELECT 1 FROM shards WHERE id = $1 AND epoch = $2 AND nonce = $3"
"""Finds something if a term is not over."""

SHARES_OF_LIMIT = f'SELECT {columns(ShareRow)} FROM limit_shares WHERE "limit" = $1 ORDER BY holder'
DROP_SHARES = 'DELETE FROM limit_shares WHERE "limit" = $1'

NEW_LIMIT_FOR = timedelta(hours=1)
"""A limit is remembered for so long after its first use, and then as long as its takes count or somebody has a part."""
FORGOTTEN_AT_ONCE = 10
"""Whoever is the first to use a limit takes so many away that nobody uses any more: there are never many of those."""


def unused_limits(now: str) -> str:
    """Select limits that are no longer used. `now` is the database's expression for the time."""
    return f"""
        SELECT "limit" FROM rate_usage
        WHERE counts_until < {now}
            AND NOT EXISTS (SELECT 1 FROM limit_shares WHERE limit_shares."limit" = rate_usage."limit")
        LIMIT {FORGOTTEN_AT_ONCE}
    """


def waiting_runs(*, now: str, priority: str = "$2", most: str = "$3") -> str:
    """How many runs of shard $1 are in intake at a priority, counted up to `most`."""
    return f"""
        SELECT count(*) FROM (
            SELECT 1 FROM runs WHERE shard = $1 AND priority = {priority} AND {IN_INTAKE} AND start_at <= {now}
            LIMIT {most}
        ) AS counted
    """


# what a leader keeps of its own

KEPT_FAILURE_COUNTS = timedelta(minutes=65)
"""A part of five minutes that began longer ago has nothing of the latest hour."""
