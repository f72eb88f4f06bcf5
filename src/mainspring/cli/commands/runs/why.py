"""`mainspring why`: explain why something is waiting and what would help.

The text is the server's, with color; queue summaries are tables.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

import rich_click as click
from click.exceptions import Exit

from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    ConnectionOptions,
    Printing,
    watch_option,
    with_connection_options,
    with_table_options,
)
from mainspring.cli.render import terminal
from mainspring.cli.render.output import REFRESH_SECONDS, Table, print_one, print_rows
from mainspring.cli.resource_ids import find_run, find_task, is_run, is_schedule, is_task, strip_url
from mainspring.client.client import Client
from mainspring.client.client_tasks import Form, Kind
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import NotFound, Refused
from mainspring.protocol.rest.diagnosis import DiagnosisView, QueueReasonsView, WaitingSumView

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
@click.option("--pool", metavar="NAME", shell_complete=candidates.pools, help="Pool of --queue.")
@click.option("--check", is_flag=True, help="Exit with 1 if action is required.")
@click.option("--markdown", is_flag=True, help="Print Markdown for tickets and chats.")
@watch_option
@with_table_options
@with_connection_options
def why(
    connection: ConnectionOptions, printing: Printing, what: str | None, changes: tuple[str, ...], queue: bool,
    pool: str | None, check: bool, markdown: bool, watch: bool,
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
    with connection.watch_client() if watch else connection.client() as client:
        request = WhyRequest(what=what or "@latest", changes=changes, pool=pool, is_queue=queue, is_markdown=markdown)
        view = WhyView(client, printing, request)
        if watch:
            view.watch()
        is_problem = view.show(check=check)
    if is_problem:
        raise Exit(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyRequest:
    """A request for a diagnosis."""

    what: str
    changes: tuple[str, ...] = ()
    pool: str | None = None
    is_queue: bool = False
    is_markdown: bool = False

    @property
    def form(self) -> Form:
        """Format of the text."""
        return "markdown" if self.is_markdown else "plain"


class WhyView:
    """Fetches and prints diagnoses."""

    def __init__(self, client: Client, printing: Printing, request: WhyRequest) -> None:
        self._client = client
        self._printing = printing
        self._request = request

    def show(self, *, check: bool = False) -> bool:
        """Print the answer once; True if `check` and someone needs to act."""
        if self._request.is_queue:
            self._show_queue(self._client.queue_reasons(self._request.pool))
            return False
        kind, reference = self._find(self._request.what)
        if self._request.changes:
            self._show_what_if(kind, reference)
            return False
        if self._printing.is_human_readable and not check:
            self._print_answer(self._client.diagnosis_text(kind, reference, self._request.form))
            return False
        found = self._client.diagnosis(kind, reference)
        print_one(found, found.subject, self._printing, lambda: click.echo(_one_line(found)))
        return check and found.is_problem

    def watch(self) -> NoReturn:
        """Show the answer until interrupted: redrawn on a terminal, otherwise printed when its code changes."""
        clock = SystemClock()
        text = self._answer()
        if terminal.is_interactive(sys.stdout):
            from rich.text import Text

            with terminal.live_view(self._printing.color, lambda: Text("\n".join(wrap_lines(text, _width())))) as live:
                while True:
                    clock.pause(REFRESH_SECONDS)
                    text = self._answer()
                    live.refresh()
        shown: str | None = None
        while True:
            code = self._code()
            if code != shown:
                self._print_answer(text if shown is None else self._answer())
                sys.stdout.flush()
                shown = code
            clock.pause(REFRESH_SECONDS)

    def _answer(self) -> str:
        """Fetch the answer as text."""
        if self._request.is_queue or not self._printing.is_human_readable:
            raise click.UsageError("--watch needs a single ID and table output; for a pool use `mainspring queue -w`")
        kind, reference = self._find(self._request.what)
        if self._request.changes:
            return self._client.what_if_text(_require_task(kind, reference), self._request.changes, self._request.form)
        return self._client.diagnosis_text(kind, reference, self._request.form)

    def _code(self) -> str:
        """Fetch the code of the answer: its reason, or else the state, or whether the task would start now."""
        kind, reference = self._find(self._request.what)
        if self._request.changes:
            forecast = self._client.what_if(_require_task(kind, reference), self._request.changes)
            return forecast.reason or ("starts_now" if forecast.starts_now else "waits")
        found = self._client.diagnosis(kind, reference)
        return found.reason or found.state

    def _show_what_if(self, kind: Kind, reference: str) -> None:
        task = _require_task(kind, reference)
        if self._printing.is_human_readable:
            self._print_answer(self._client.what_if_text(task, self._request.changes, self._request.form))
            return
        print_one(self._client.what_if(task, self._request.changes), task, self._printing, lambda: None)

    def _show_queue(self, found: QueueReasonsView) -> None:
        def print_text() -> None:
            total = sum(one.tasks for one in found.reasons)
            click.echo(f"pool {found.pool}: {total:,} waiting {'task' if total == 1 else 'tasks'}")
            if found.reasons:
                click.echo()
                print_rows(found.reasons, REASONS, self._printing)

        print_one(found, found.pool, self._printing, print_text)

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
        if self._request.is_markdown:
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
