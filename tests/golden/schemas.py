"""The schema of both stores after their migrations."""

from __future__ import annotations

import re
from collections.abc import Iterator

import asyncpg

from mainspring.protocol.clock import SystemClock
from mainspring.store.postgres.store import PostgresStore
from mainspring.store.sqlite.store import SqliteStore, inline

_COLUMNS = """
    SELECT c.relname AS "table", a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type,
        a.attnotnull AS filled,
        pg_get_expr(d.adbin, d.adrelid) AS "default", a.attidentity::text || a.attgenerated::text AS made
    FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p') AND NOT c.relispartition
        AND c.relnamespace = 'public'::regnamespace
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attnum > 0 AND NOT a.attisdropped
    ORDER BY c.relname, a.attnum
"""
_TABLES = """
    SELECT relname AS "table", array_to_string(reloptions, ', ') AS options, relpersistence::text AS kept,
        pg_get_partkeydef(oid) AS parts
    FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = 'public'::regnamespace
    ORDER BY relname
"""
_INDEXES = (
    "SELECT tablename AS \"table\", indexdef AS text FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexdef"
)
_CONSTRAINTS = """
    SELECT conrelid::regclass::text AS "table", conname || ' ' || pg_get_constraintdef(oid) AS text
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n' ORDER BY conname
"""
_FUNCTIONS = """
    SELECT pg_get_functiondef(p.oid) AS text FROM pg_proc p
    WHERE pronamespace = 'public'::regnamespace AND prokind IN ('f', 'p')
    ORDER BY proname, pg_get_function_identity_arguments(p.oid)
"""
_TYPES = """
    SELECT t.typname AS name,
        string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum) AS fields
    FROM pg_type t JOIN pg_class c ON c.oid = t.typrelid AND c.relkind = 'c'
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
    WHERE t.typnamespace = 'public'::regnamespace GROUP BY t.typname ORDER BY t.typname
"""


async def postgres_text(url: str) -> str:
    """The tables, indexes, constraints, types and functions of an empty database that has been migrated.

    Partitions by day are omitted: they are like their table.
    """
    store = await PostgresStore.connect(url)
    await store.close()
    connection = await asyncpg.connect(url)
    try:
        columns = await connection.fetch(_COLUMNS)
        beside = [*await connection.fetch(_INDEXES), *await connection.fetch(_CONSTRAINTS)]
        lines = []
        for table in await connection.fetch(_TABLES):
            name = table["table"]
            options = f" with ({table['options']})" if table["options"] else ""
            parts = f" in parts by {table['parts']}" if table["parts"] else ""
            lines += [f"== {name}{parts}{options}{'' if table['kept'] == 'p' else ' unlogged'}"]
            lines += [f"  {_column(row)}" for row in columns if row["table"] == name]
            lines += [f"  {row['text']}" for row in beside if row["table"].strip('"') == name]
            lines += [""]
        for row in await connection.fetch(_TYPES):
            lines += [f"== type {row['name']}", f"  {row['fields']}", ""]
        for row in await connection.fetch(_FUNCTIONS):
            lines += ["== function", *row["text"].rstrip().splitlines(), ""]
    finally:
        await connection.close()
    return "\n".join(lines)


async def sqlite_text() -> str:
    """The statements that create an empty file."""
    store = SqliteStore.open(":memory:", clock=SystemClock(), run=inline)
    try:
        query = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY tbl_name, type DESC, name"
        rows = await store._read(lambda db: db.execute(query).fetchall())
    finally:
        await store.close()
    return "\n".join(line for (sql,) in rows for line in _statement(sql))


def _column(row: asyncpg.Record) -> str:
    words = [row["name"], row["type"]]
    words += ["not null"] if row["filled"] else []
    words += [f"default {row['default']}"] if row["default"] else []
    words += [f"made {row['made']}"] if row["made"] else []
    return " ".join(words)


def _statement(sql: str) -> Iterator[str]:
    """A statement without its comments."""
    lines = (re.sub(r"\s*--.*", "", line).rstrip() for line in sql.splitlines())
    yield from (line for line in lines if line)
    yield ""
