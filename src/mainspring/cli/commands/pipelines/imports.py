"""`mainspring import`: convert other schedulers' definitions to pipelines."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.options import Printing, with_table_options

if TYPE_CHECKING:
    from mainspring.cli.commands.pipelines.imported_lines import CrontabLineView

_OWN_CRONTAB = "crontab -l"


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
    help="Whether lines name a user, as in /etc/crontab; else detected.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only list the outcome of each line.")
@click.option("--force", is_flag=True, help="Overwrite existing pipelines.")
@with_table_options
def crontab(
    printing: Printing, file: str | None, into: Path, is_system: bool | None, dry_run: bool, force: bool
) -> None:
    """Convert each line of a crontab to a pipeline. FILE may be - for stdin; the default is `crontab -l`.

    Lines that can't be converted are listed with the reason, and the exit code is 1. Lines for other users become
    disabled pipelines.

    \b
    Examples:
      mainspring import crontab --dry-run
      mainspring import crontab /etc/crontab --into pipelines
      crontab -l | mainspring import crontab - && mainspring up pipelines
    """
    import getpass

    from mainspring.cli.commands.pipelines.imported_lines import LINES, write_lines
    from mainspring.cli.render.output import print_rows
    from mainspring.definitions.crontab.crontab import Form, read_crontab
    from mainspring.definitions.crontab.pipelines import pipelines_of

    name, text = _read(file)
    form = None if is_system is None else Form.SYSTEM if is_system else Form.USER
    read = read_crontab(text, form=form, users=_users())
    lines = pipelines_of(read, file=name, user=getpass.getuser())
    rows = write_lines(read, lines, into, dry_run=dry_run, force=force)
    print_rows(rows, LINES, printing)
    if printing.is_human_readable:
        _sum_up(rows, into, dry_run=dry_run)
    if not all(row.is_migrated for row in rows):
        sys.exit(1)


def _read(file: str | None) -> tuple[str, str]:
    """Return the name and text of the crontab."""
    from mainspring.cli.config.input_files import read_file

    if file is not None:
        return read_file(file)
    import shutil
    import subprocess

    program = shutil.which("crontab")
    if program is None:
        raise click.UsageError("no program `crontab` found; name a file, or - for stdin")
    listed = subprocess.run([program, "-l"], capture_output=True, check=False)
    if listed.returncode != 0:
        why = listed.stderr.decode(errors="replace").strip() or f"exit code {listed.returncode}"
        raise click.UsageError(f"`{_OWN_CRONTAB}` failed: {why}")
    return _OWN_CRONTAB, listed.stdout.decode(errors="replace")


def _users() -> set[str]:
    """Return the users of this machine."""
    import pwd

    return {"root", *(user.pw_name for user in pwd.getpwall())}


def _sum_up(rows: list[CrontabLineView], into: Path, *, dry_run: bool) -> None:
    """Print a summary and the next step."""
    from mainspring.cli.commands.pipelines.imported_lines import Outcome
    from mainspring.cli.render.output import print_hint

    counts = {outcome: sum(row.outcome is outcome for row in rows) for outcome in Outcome}
    counted = ", ".join(f"{number} {outcome}" for outcome, number in counts.items() if number)
    click.echo(counted or "the crontab has no jobs", err=True)
    if dry_run:
        click.echo("nothing was written", err=True)
    elif counts[Outcome.IMPORTED] or counts[Outcome.UNCHANGED]:
        command = f"mainspring up {shlex.quote(str(into))}"
        print_hint(f"review them, remove the lines from the crontab, and run `{command}`")
