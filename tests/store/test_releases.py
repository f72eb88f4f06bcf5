"""Servers of the previous release keep working on the new schema (OPS-8)."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from mainspring.store.migrations import migrations

SESSIONS = {path.stem: path.read_text(encoding="utf-8") for path in Path(__file__).with_name("releases").glob("*.sql")}


def test_the_previous_release_is_recorded() -> None:
    assert max(map(int, SESSIONS), default=0) >= len(migrations("postgres")) - 1


@pytest.mark.parametrize("release", SESSIONS)
async def test_statements_of_an_earlier_release_have_the_same_outcome_on_the_newest_schema(
    postgres_url: str, release: str
) -> None:
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
