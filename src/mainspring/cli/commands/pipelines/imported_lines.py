"""Write the lines of a crontab as pipelines, and list the outcome of each."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import msgspec
import rich_click as click

from mainspring.cli.render.output import Column, Table
from mainspring.definitions.crontab.crontab import Crontab
from mainspring.definitions.crontab.pipelines import ImportedLine
from mainspring.folder.state.records import PIPELINE_FILE


class Outcome(StrEnum):
    """Outcome of a line."""

    IMPORTED = "imported"
    UNCHANGED = "unchanged"
    """An identical file exists."""
    SWITCHED_OFF = "disabled"
    """Imported as a disabled pipeline."""
    EXISTS = "exists"
    """A different file exists and was kept."""
    LEFT_OUT = "skipped"
    """The line can't be converted."""
    IGNORED = "ignored"
    """The line starts nothing."""


class CrontabLineView(msgspec.Struct, frozen=True, kw_only=True):
    """A line and its outcome."""

    line: int
    schedule: str | None = None
    pipeline: str | None = None
    """Directory of the pipeline."""
    outcome: Outcome
    note: str = ""

    @property
    def is_migrated(self) -> bool:
        """Whether everything that the line starts will be started here as well."""
        return self.outcome in {Outcome.IMPORTED, Outcome.UNCHANGED, Outcome.IGNORED}


LINES: Table[CrontabLineView] = Table(
    [
        Column("line", lambda row, _: row.line),
        Column("schedule", lambda row, _: row.schedule),
        Column("pipeline", lambda row, _: row.pipeline),
        Column("outcome", lambda row, _: row.outcome),
        Column("note", lambda row, _: row.note),
    ],
    id=lambda row: row.pipeline or str(row.line),
)


def write_lines(
    crontab: Crontab, lines: Sequence[ImportedLine], into: Path, *, dry_run: bool, force: bool
) -> list[CrontabLineView]:
    """Write the pipelines unless it is a dry run. Return the outcome of every line in order. Raises UsageError."""
    rows = [CrontabLineView(line=one.line, outcome=Outcome.LEFT_OUT, note=one.why) for one in crontab.refused]
    rows += [CrontabLineView(line=one.line, outcome=Outcome.IGNORED, note=one.why) for one in crontab.ignored]
    try:
        rows += [_write(line, into, dry_run=dry_run, force=force) for line in lines]
    except OSError as error:
        raise click.UsageError(f"{error.filename or into} can't be written: {error.strerror}") from error
    return sorted(rows, key=lambda row: row.line)


def _write(line: ImportedLine, into: Path, *, dry_run: bool, force: bool) -> CrontabLineView:
    directory = into / line.name
    file = directory / PIPELINE_FILE
    row = CrontabLineView(
        line=line.line,
        schedule=line.schedule,
        pipeline=str(directory),
        outcome=Outcome.IMPORTED if line.is_enabled else Outcome.SWITCHED_OFF,
        note="; ".join(line.notes),
    )
    if directory.exists() or directory.is_symlink():
        if file.is_file() and file.read_bytes() == line.text.encode():
            return row if not line.is_enabled else msgspec.structs.replace(row, outcome=Outcome.UNCHANGED)
        if not force:
            note = f"{directory} exists; use --force to overwrite it"
            return msgspec.structs.replace(row, outcome=Outcome.EXISTS, note=note)
    if not dry_run:
        directory.mkdir(parents=True, exist_ok=True)
        file.write_bytes(line.text.encode())
    return row
