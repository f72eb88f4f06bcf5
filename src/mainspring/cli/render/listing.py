"""Print a list once, or watch it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NoReturn, TypeVar

import msgspec
import rich_click as click

from mainspring.cli.options import Printing
from mainspring.cli.render import terminal
from mainspring.cli.render.output import Table, plain_lines, print_hint, print_rows, rich_table, sort_rows
from mainspring.protocol.clock import SystemClock

if TYPE_CHECKING:
    from rich.console import RenderableType

T = TypeVar("T", bound=msgspec.Struct)

_REFRESH_SECONDS = 1.0


def show_list(
    fetch: Callable[[], Iterable[T]], table: Table[T], printing: Printing, *, watch: bool, limit: int | None = None
) -> None:
    """Print a list; with `watch`, until interrupted."""
    if watch:
        _watch(fetch, table, printing)
    rows = list(fetch()) if printing.is_human_readable else fetch()
    print_rows(rows, table, printing)
    if limit is not None and isinstance(rows, list) and len(rows) >= limit and sys.stderr.isatty():
        print_hint(f"showing the first {limit}; use --limit to see more")


def _watch(fetch: Callable[[], Iterable[T]], table: Table[T], printing: Printing) -> NoReturn:
    clock = SystemClock()
    if printing.is_human_readable and terminal.is_interactive(sys.stdout):
        rows = list(fetch())

        def draw() -> RenderableType:
            now = clock.wall()
            return rich_table(sort_rows(rows, table, printing, now), table, printing, now)

        with terminal.live_view(printing.color, draw) as live:
            while True:
                clock.pause(_REFRESH_SECONDS)
                rows = list(fetch())
                live.refresh()
    shown: dict[str, T] = {}
    while True:
        changed = [row for row in fetch() if shown.get(table.id(row)) != row]
        _print_changed(changed, table, printing, first=not shown)
        sys.stdout.flush()
        shown.update((table.id(row), row) for row in changed)
        clock.pause(_REFRESH_SECONDS)


def _print_changed(rows: list[T], table: Table[T], printing: Printing, *, first: bool) -> None:
    """Print new and changed rows, one per line."""
    match printing.output:
        case "table" | "wide":
            lines = plain_lines(rows, table, printing, SystemClock().wall())
            for line in lines if first else lines[1 if printing.headers else 0 :]:
                click.echo(line)
        case "name":
            for row in rows:
                click.echo(table.id(row))
        case _:
            for row in rows:
                click.echo(msgspec.json.encode(row))
