"""Table of artifacts."""

from __future__ import annotations

from mainspring.cli.render.output import Column, Table
from mainspring.core.text.quantities import format_bytes
from mainspring.protocol.rest.artifacts import ArtifactView

ARTIFACTS: Table[ArtifactView] = Table(
    [
        Column("task", lambda one, _: one.task if one.partition is None else f"{one.task}[{one.partition}]"),
        Column("path", lambda one, _: one.path),
        Column("size", lambda one, _: format_bytes(one.size_bytes)),
        Column("sha256", lambda one, _: one.sha256[:12]),
        Column("stored", lambda one, _: one.stored_at),
        Column("note", lambda one, _: _note(one)),
        Column("location", lambda one, _: one.location, wide=True),
        Column("kept_until", lambda one, _: one.kept_until, wide=True),
        Column("attempt", lambda one, _: one.attempt_id, wide=True),
        Column("task_id", lambda one, _: one.task_id, wide=True),
    ],
    id=lambda one: f"{one.task_id}/{one.path}",
)


def _note(one: ArtifactView) -> str:
    if one.is_expired:
        return "expired"
    return "" if one.succeeded else "failed attempt"
