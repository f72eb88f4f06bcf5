"""`mainspring import`: what ran elsewhere becomes pipelines."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.options import Printing, prints_rows

if TYPE_CHECKING:
    from mainspring.cli.commands.pipelines.imported_lines import LineView

_OWN_CRONTAB = "crontab -l"


@click.group("imports")
def imports() -> None:
    """Make pipelines of what runs elsewhere: a crontab.

    \b
    Examples:
      mainspring import crontab --dry-run
      mainspring import crontab /etc/crontab --into pipelines
    """


@imports.command("crontab")
@click.argument("file", required=False)
@click.option(
    "--into", type=click.Path(file_okay=False, path_type=Path), default=Path("pipelines"), show_default=True,
    help="The folder that gets a directory for each line.",
)  # fmt: skip
@click.option(
    "--system/--user", "is_system", default=None,
    help="Whether a user stands before each command, as in /etc/crontab; seen from the lines, unless said.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only list what would become of each line.")
@click.option("--force", is_flag=True, help="Write over pipelines that are there already.")
@prints_rows
def crontab(
    printing: Printing, file: str | None, into: Path, is_system: bool | None, dry_run: bool, force: bool
) -> None:
    """Make a pipeline of each line of a crontab: FILE, - for stdin, or without it your own (`crontab -l`).

    What can't be taken is listed with its reason, and the exit code is 1. Lines for other users are written, but
    switched off.

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
    if printing.is_for_people:
        _sum_up(rows, into, dry_run=dry_run)
    if not all(row.is_as_it_was for row in rows):
        sys.exit(1)


def _read(file: str | None) -> tuple[str, str]:
    """What the crontab is called, and its text."""
    from mainspring.cli.config.input_files import read_file

    if file is not None:
        return read_file(file)
    import shutil
    import subprocess

    program = shutil.which("crontab")
    if program is None:
        raise click.UsageError("there is no program `crontab` here: say which file to read, or - for stdin")
    listed = subprocess.run([program, "-l"], capture_output=True, check=False)
    if listed.returncode != 0:
        why = listed.stderr.decode(errors="replace").strip() or f"it ended with {listed.returncode}"
        raise click.UsageError(f"`{_OWN_CRONTAB}` gives nothing: {why}")
    return _OWN_CRONTAB, listed.stdout.decode(errors="replace")


def _users() -> set[str]:
    """Everybody that this machine knows."""
    import pwd

    return {"root", *(user.pw_name for user in pwd.getpwall())}


def _sum_up(rows: list[LineView], into: Path, *, dry_run: bool) -> None:
    """How it went, and what comes next."""
    from mainspring.cli.commands.pipelines.imported_lines import Outcome
    from mainspring.cli.render.output import say_hint

    counts = {outcome: sum(row.outcome is outcome for row in rows) for outcome in Outcome}
    said = ", ".join(f"{number} {outcome}" for outcome, number in counts.items() if number)
    click.echo(said or "it has no lines that start something", err=True)
    if dry_run:
        click.echo("nothing was written", err=True)
    elif counts[Outcome.IMPORTED] or counts[Outcome.UNCHANGED]:
        command = f"mainspring up {shlex.quote(str(into))}"
        say_hint(f"look at them, take the lines out of the crontab, and run them with `{command}`")
