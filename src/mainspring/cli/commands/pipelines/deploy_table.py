"""Table of deployed pipelines."""

from __future__ import annotations

from mainspring.cli.render.output import Column, Table
from mainspring.folder.deploy import DeployResult

DEPLOYED: Table[DeployResult] = Table(
    [
        Column("pipeline", lambda row, _: row.pipeline),
        Column("change", lambda row, _: row.change),
        Column("version", lambda row, _: row.version or None),
        Column("schedules", lambda row, _: ", ".join(f"{name} {change}" for name, change in row.schedules.items())),
        Column("detail", lambda row, _: row.detail),
    ],
    id=lambda row: row.pipeline,
)
