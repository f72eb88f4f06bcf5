"""The golden files, their generators, and how a difference is reported."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from mainspring.api.app import endpoints
from mainspring.api.http import openapi
from tests.golden import catalogues, commands, frames, public, schemas, stored
from tests.golden.shapes import written

EXPECTED = Path(__file__).parent / "expected"
POSTGRES = "schema-postgres.txt"
"""It needs a database, and has its own test."""
_MOST_LINES = 200


def openapi_text() -> str:
    """The OpenAPI document with sorted keys; short values are on one line.

    Examples are omitted, and a problem response is shortened to its description.
    """
    document = msgspec.json.decode(msgspec.json.encode(openapi.document(endpoints(), "VERSION")))
    return "\n".join(written(_short(document))) + "\n"


FILES: Mapping[str, Callable[[], str]] = {
    "openapi.json": openapi_text,
    "wire.txt": frames.wire_text,
    "peers.txt": frames.peers_text,
    "rows.txt": stored.rows_text,
    "documents.txt": stored.documents_text,
    "held.txt": stored.held_text,
    "errors.txt": catalogues.errors_text,
    "metrics.txt": catalogues.metrics_text,
    "settings.txt": catalogues.settings_text,
    "variables.txt": catalogues.variables_text,
    "codes.txt": catalogues.codes_text,
    "events.txt": catalogues.events_text,
    "messages.txt": catalogues.messages_text,
    "cli.txt": commands.commands_text,
    "tables.txt": commands.tables_text,
    "public.txt": public.public_text,
    "schema-sqlite.txt": lambda: asyncio.run(schemas.sqlite_text()),
}
"""Each golden file, with its generator."""


def expected(name: str) -> str:
    """The content of a golden file; empty if it does not exist."""
    path = EXPECTED / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


def rewrite(name: str, text: str) -> bool:
    """Write a golden file. Return whether it changed."""
    if expected(name) == text:
        return False
    (EXPECTED / name).write_text(text, encoding="utf-8")
    return True


def difference(name: str, text: str) -> str:
    """The difference between a text and its golden file, with a hint; empty if they are equal."""
    before = expected(name).splitlines()
    after = text.splitlines()
    if before == after:
        return "" if expected(name) == text else f"{name}: the end of the file is not as it is made"
    lines = list(difflib.unified_diff(before, after, f"expected/{name}", "the code", lineterm="", n=2))
    more = [f".. and {len(lines) - _MOST_LINES} lines more"] if len(lines) > _MOST_LINES else []
    return "\n".join(
        [
            f"\nWhat is seen from outside is not what tests/golden/expected/{name} says:\n",
            *lines[:_MOST_LINES],
            *more,
            "",
            "Not meant? Then users, workers or stores would have noticed: fix the code.",
            f"Meant? `.venv/bin/python -m tests.golden {name}` (or `make golden`) accepts it; commit the file",
            "with the code, and if users can see it, with a line in the changelog.",
        ]
    )


def _short(part: object) -> object:
    match part:
        case {"description": about, "content": {"application/problem+json": _, **others}} if not others:
            return f"problem: {about}"
        case dict():
            return {key: _short(value) for key, value in part.items() if key != "example"}
        case list():
            return [_short(value) for value in part]
        case _:
            return part
