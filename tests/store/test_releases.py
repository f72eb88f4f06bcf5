"""Servers of the previous release keep working on the new schema (OPS-8)."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from mainspring.store.migrations import migrations
from tests.postgres import PostgresServer
from tests.store.releases.session import record

SESSIONS = {path.stem: path.read_text(encoding="utf-8") for path in Path(__file__).with_name("releases").glob("*.sql")}


def test_the_previous_release_is_recorded() -> None:
    assert max(map(int, SESSIONS), default=0) >= len(migrations("postgres")) - 1


@pytest.mark.parametrize("release", ["current", *SESSIONS])
async def test_statements_of_a_release_have_the_same_outcome_on_the_newest_schema(
    postgres_server: PostgresServer, postgres_url: str, release: str
) -> None:
    """The current release, recorded here, shows that recording and replaying work before there is an earlier one."""
    if release == "current":
        with postgres_server.lent_database("template0") as database:
            lines = "\n".join(await record(postgres_server.url(database))).splitlines()
    else:
        lines = SESSIONS[release].splitlines()[1:]
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("DELETE FROM jobs")

    for statement, expected in zip(lines[::2], lines[1::2], strict=True):
        if expected.endswith(" rows"):
            outcome = f"-- {len(await connection.fetch(statement))} rows"
        else:
            status = await connection.execute(statement)
            outcome = f"-- {status.rpartition(' ')[2]} changed" if expected.endswith(" changed") else "-- done"
        assert outcome == expected, statement

    assert len(lines) > 100
    await connection.close()
