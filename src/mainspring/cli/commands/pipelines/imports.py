"""`mainspring import`: convert other schedulers' definitions to pipelines."""

from __future__ import annotations

import getpass
import pwd
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import msgspec
import rich_click as click

from mainspring.cli.config.input_files import read_file
from mainspring.cli.options import Printing, with_table_options
from mainspring.cli.render.output import Table, print_hint, print_rows
from mainspring.definitions.crontab.crontab import Crontab, Form, read_crontab
from mainspring.definitions.crontab.pipelines import ImportedLine, pipelines_of
from mainspring.folder.state.records import PIPELINE_FILE

_OWN_CRONTAB = "crontab -l"


class Outcome(StrEnum):
    """Outcome of a line."""

    IMPORTED = "imported"
    UNCHANGED = "unchanged"
    """An identical file exists."""
    DISABLED = "disabled"
    """Imported as a disabled pipeline."""
    EXISTS = "exists"
    """A different file exists and was kept."""
    SKIPPED = "skipped"
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


LINES = Table.of(CrontabLineView, "line schedule pipeline outcome note", id=lambda row: row.pipeline or str(row.line))


@click.group("imports")
def imports() -> None:
    """Import pipelines from other schedulers: crontab.

    \b
    Examples:
      mainspring import crontab --dry-run
      mainspring import crontab /etc/crontab --into pipelines
    """


@imports.command("crontab")
@click.argument("file", required=False)
@click.option(
    "--into", type=click.Path(file_okay=False, path_type=Path), default=Path("pipelines"), show_default=True,
    help="Folder for the new pipelines.",
)  # fmt: skip
@click.option(
    "--system/--user", "is_system", default=None,
    help="Whether lines name a user, as in /etc/crontab; detected if omitted.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only list the outcome of each line.")
@click.option("--force", is_flag=True, help="Overwrite existing pipelines.")
@with_table_options
def crontab(
    printing: Printing, file: str | None, into: Path, is_system: bool | None, dry_run: bool, force: bool
) -> None:
    """Convert each line of a crontab to a pipeline.

    FILE may be - for stdin; the default is `crontab -l`. Lines that can't be converted are listed with the reason,
    and the exit code is 1. Lines for other users become disabled pipelines.

    \b
    Examples:
      mainspring import crontab --dry-run
      mainspring import crontab /etc/crontab --into pipelines
      crontab -l | mainspring import crontab - && mainspring up pipelines
    """
    name, text = _read(file)
    form = None if is_system is None else Form.SYSTEM if is_system else Form.USER
    read = read_crontab(text, form=form, users={"root", *(user.pw_name for user in pwd.getpwall())})
    lines = pipelines_of(read, file=name, user=getpass.getuser())
    rows = _write_lines(read, lines, into, dry_run=dry_run, force=force)
    print_rows(rows, LINES, printing)
    if printing.is_human_readable:
        _sum_up(rows, into, dry_run=dry_run)
    if not all(row.is_migrated for row in rows):
        sys.exit(1)


def _read(file: str | None) -> tuple[str, str]:
    """Return the name and text of the crontab."""
    if file is not None:
        return read_file(file)
    program = shutil.which("crontab")
    if program is None:
        raise click.UsageError("no program `crontab` found; name a file, or - for stdin")
    listed = subprocess.run([program, "-l"], capture_output=True, check=False)
    if listed.returncode != 0:
        why = listed.stderr.decode(errors="replace").strip() or f"exit code {listed.returncode}"
        raise click.UsageError(f"`{_OWN_CRONTAB}` failed: {why}")
    return _OWN_CRONTAB, listed.stdout.decode(errors="replace")


def _sum_up(rows: list[CrontabLineView], into: Path, *, dry_run: bool) -> None:
    """Print a summary and the next step."""
    counts = {outcome: sum(row.outcome is outcome for row in rows) for outcome in Outcome}
    counted = ", ".join(f"{number} {outcome}" for outcome, number in counts.items() if number)
    click.echo(counted or "the crontab has no jobs", err=True)
    if dry_run:
        click.echo("nothing was written", err=True)
    elif counts[Outcome.IMPORTED] or counts[Outcome.UNCHANGED]:
        command = f"mainspring up {shlex.quote(str(into))}"
        print_hint(f"review them, remove the lines from the crontab, and run `{command}`")


def _write_lines(
    crontab: Crontab, lines: Sequence[ImportedLine], into: Path, *, dry_run: bool, force: bool
) -> list[CrontabLineView]:
    """Write the pipelines unless it is a dry run. Return the outcome of every line in order. Raises UsageError."""
    rows = [CrontabLineView(line=one.line, outcome=Outcome.SKIPPED, note=one.why) for one in crontab.refused]
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
        outcome=Outcome.IMPORTED if line.is_enabled else Outcome.DISABLED,
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
