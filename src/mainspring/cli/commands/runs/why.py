"""`mainspring why`: explain why something is waiting and what would help.

The text is the server's, with color; queue summaries are tables.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

import rich_click as click
from click.exceptions import Exit

from mainspring.cli.completion import candidates
from mainspring.cli.options import Printing, pool_option, watch_option
from mainspring.cli.render import terminal
from mainspring.cli.render.output import Table, print_one
from mainspring.cli.resource import Session, with_table_session
from mainspring.cli.resource_ids import find_run, find_task, is_run, is_schedule, is_task, strip_url
from mainspring.client.client import Client
from mainspring.client.client_tasks import Form, Kind
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import NotFound, Refused
from mainspring.protocol.rest.diagnosis import DiagnosisView, WaitingSumView

REASONS = Table.of(WaitingSumView, "reason tasks oldest detail=says", wide="example", id=lambda one: one.reason)
_MIN_LINE_WIDTH = 60
_LABEL_WIDTH = 14
"""Column where the text after a label begins; commands are indented by two more."""


@click.command("why")
@click.argument("what", metavar="[ID]", required=False, shell_complete=candidates.everything)
@click.option(
    "--with", "changes", multiple=True, metavar="CHANGE",
    help="What-if change of a task: 'cpu 2' or 'worker 8'. Repeatable.",
)  # fmt: skip
@click.option("--queue", is_flag=True, help="Summarize waiting tasks of a pool by reason.")
@pool_option("Pool of --queue.")
@click.option("--check", is_flag=True, help="Exit with 1 if action is required.")
@click.option("--markdown", is_flag=True, help="Print Markdown for tickets and chats.")
@watch_option
@with_table_session
def why(
    session: Session, what: str | None, changes: tuple[str, ...], queue: bool, pool: str | None, check: bool,
    markdown: bool, watch: bool,
) -> None:  # fmt: skip
    """Explain why a task, run, job or schedule is waiting.

    ID is a task or run id, `@latest`, RUN/TASK, JOB/TASK for the latest run of a job, or the name of a job or
    schedule; the default is `@latest`. The answer says what would help; suggested actions have been tried on a copy
    of the scheduler's state.

    \b
    Examples:
      mainspring why
      mainspring why etl/extract
      mainspring why nightly --check
      mainspring why etl/train --with 'cpu 2' --with 'priority P1'
      mainspring why --queue
    """
    if queue and (what or changes or check or markdown):
        raise click.UsageError("--queue is mutually exclusive with ID, --with, --check and --markdown")
    if pool is not None and not queue:
        raise click.UsageError("--pool requires --queue")
    if watch and (queue or not session.printing.is_human_readable):
        raise click.UsageError("--watch needs a single ID and table output; for a pool use `mainspring queue -w`")
    if queue:
        _show_queue(session, pool)
        return
    client = session.watch_client if watch else session.client
    view = WhyView(client, session.printing, what or "@latest", changes, "markdown" if markdown else "plain")
    if watch:
        view.watch()
    if view.show(check=check):
        raise Exit(1)


def _show_queue(session: Session, pool: str | None) -> None:
    """Print the number of waiting tasks of a pool by reason."""
    found = session.client.queue_reasons(pool)

    def print_text() -> None:
        total = sum(one.tasks for one in found.reasons)
        click.echo(f"pool {found.pool}: {total:,} waiting {'task' if total == 1 else 'tasks'}")
        if found.reasons:
            click.echo()
            session.print_rows(found.reasons, REASONS)

    session.print_one(found, found.pool, print_text)


class WhyView:
    """Fetches and prints diagnoses."""

    def __init__(self, client: Client, printing: Printing, what: str, changes: tuple[str, ...], form: Form) -> None:
        self._client = client
        self._printing = printing
        self._what = what
        self._changes = changes
        self._form: Form = form

    def show(self, *, check: bool) -> bool:
        """Print the answer once. Return whether `check` is set and action is required."""
        if self._printing.is_human_readable and (self._changes or not check):
            self._print_answer(self._answer())
            return False
        kind, reference = self._find(self._what)
        if self._changes:
            task = _require_task(kind, reference)
            print_one(self._client.what_if(task, self._changes), task, self._printing, lambda: None)
            return False
        found = self._client.diagnosis(kind, reference)
        print_one(found, found.subject, self._printing, lambda: click.echo(_one_line(found)))
        return check and found.is_problem

    def watch(self) -> NoReturn:
        """Show the answer until interrupted: redrawn on a terminal, otherwise printed when its code changes."""
        if terminal.is_interactive(sys.stdout):
            from rich.text import Text

            terminal.show_live(
                self._printing.color, self._answer, lambda text: Text("\n".join(wrap_lines(text, _width())))
            )
        clock = SystemClock()
        shown: str | None = None
        while True:
            code = self._code()
            if code != shown:
                self._print_answer(self._answer())
                sys.stdout.flush()
                shown = code
            clock.pause(terminal.REFRESH_SECONDS)

    def _answer(self) -> str:
        """Fetch the answer as text."""
        kind, reference = self._find(self._what)
        if self._changes:
            return self._client.what_if_text(_require_task(kind, reference), self._changes, self._form)
        return self._client.diagnosis_text(kind, reference, self._form)

    def _code(self) -> str:
        """Fetch the code of the answer: its reason, or else the state, or whether the task would start now."""
        kind, reference = self._find(self._what)
        if self._changes:
            forecast = self._client.what_if(_require_task(kind, reference), self._changes)
            return forecast.reason or ("starts_now" if forecast.starts_now else "waits")
        found = self._client.diagnosis(kind, reference)
        return found.reason or found.state

    def _find(self, word: str) -> tuple[Kind, str]:
        """Resolve a reference: its kind follows from the prefix of its id, or is looked up. Raises NotFound."""
        word = strip_url(word)
        if is_task(word) or "/" in word:
            return "tasks", find_task(self._client, word)
        if is_run(word):
            return "runs", find_run(self._client, word)
        if is_schedule(word):
            return "schedules", word
        return self._find_named(word)

    def _find_named(self, name: str) -> tuple[Kind, str]:
        """Find a job of this name, which includes its schedules, or a schedule."""
        finders: dict[Kind, Callable[[str], object]] = {"jobs": self._client.job, "schedules": self._client.schedule}
        for kind, find in finders.items():
            with suppress(NotFound):
                find(name)
                return kind, name
        raise NotFound(f"there is no task, run, job or schedule {name}")

    def _print_answer(self, text: str) -> None:
        """Print the server's text, with color for the code and labels."""
        if self._form == "markdown":
            click.echo(text, nl=False)
            return
        headline, *lines = wrap_lines(text, _width())
        if not terminal.has_color(self._printing.color, sys.stdout):
            click.echo("\n".join((headline, *lines)))
            return
        code, gap, rest = headline.partition("  ")
        click.echo(f"{click.style(code, bold=True, fg='cyan')}{gap}{rest}", color=True)
        for line in lines:
            click.echo(f"{click.style(line[:_LABEL_WIDTH], dim=True)}{line[_LABEL_WIDTH:]}", color=True)


def _require_task(kind: Kind, reference: str) -> str:
    """Return the task of a what-if. Raises Refused for anything else."""
    if kind != "tasks":
        raise Refused(f"--with requires a task, such as {reference}/NAME")
    return reference


def wrap_lines(text: str, width: int | None) -> list[str]:
    """Wrap the lines of a plain text to a width, except commands, which stay copyable; None does not wrap."""
    lines: list[str] = []
    for line in text.splitlines():
        if width is None or len(line) <= width or line.startswith(" " * (_LABEL_WIDTH + 2)):
            lines.append(line)
        else:
            below = " " * _LABEL_WIDTH
            lines += textwrap.wrap(line, width, subsequent_indent=below, break_on_hyphens=False)
    return lines


def _width() -> int | None:
    """Return the maximum line width; None without a terminal."""
    return max(_MIN_LINE_WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None


def _one_line(found: DiagnosisView) -> str:
    """Format a diagnosis on one line, for --check."""
    return f"{found.reason or found.state}  {found.name}: {found.verdict}"
