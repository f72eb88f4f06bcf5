"""Print results as tables, JSON, YAML or names.

1. Results go to stdout, everything else to stderr.
2. Machine-readable formats have all fields of the API under their own names, with times in ISO 8601.
3. Tables are colored and truncated to the width only on a terminal; otherwise they are complete plain text. States
   are always words.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias, TypeVar

import msgspec
import rich_click as click

from mainspring.cli.options import Printing
from mainspring.cli.render import terminal
from mainspring.core.text.durations import format_seconds
from mainspring.core.text.quantities import format_bytes
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Fault, MainspringError, Unauthenticated

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as RichTable

T = TypeVar("T", bound=msgspec.Struct)
Cell: TypeAlias = "str | int | datetime | timedelta | None"
Fact: TypeAlias = "tuple[str, str | int | None]"
Facts: TypeAlias = "Sequence[Fact]"
"""Names and values."""

_GAP = "  "
_NOTHING = "-"
_FLEXIBLE_COLUMNS = frozenset({"reason", "error", "detail", "problem", "labels", "hold_reason"})
"""Columns that shrink on narrow terminals."""
_MIN_FLEXIBLE_WIDTH = 12
_UNITS: dict[str, Callable[[float], Cell]] = {
    "seconds": lambda number: timedelta(seconds=number),
    "bytes": lambda number: format_bytes(int(number)),
    "millis": lambda number: f"{number / 1_000:g}",
}
"""Formats of numbers by the unit at the end of the field's name."""
_CREDENTIAL_HINT = "provide a token with --token-file, MAINSPRING_API_KEY or a context; see `mainspring context --help`"


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A column of a table."""

    name: str
    read: Callable[[T, datetime], Cell]
    """Return the value of a row at a time."""
    wide: bool = False
    """Shown only with -o wide."""


@dataclass(frozen=True, slots=True)
class Table(Generic[T]):
    """Columns of a kind of resource."""

    columns: Sequence[Column[T]]
    id: Callable[[T], str]

    @classmethod
    def of(
        cls, row: type[T], columns: str, *, wide: str = "", id: Callable[[T], str],
        **computed: Callable[[T, datetime], Cell],
    ) -> Table[T]:  # fmt: skip
        """Return a table with columns such as `name expires=expires_at`; `wide` are those of -o wide.

        A column reads the field of its name, or the one after `=`, or is computed by the argument of its name. A field
        is formatted by its type, or by the unit at the end of its name.
        """

        def column(word: str, *, is_wide: bool) -> Column[T]:
            name, _, field = word.partition("=")
            if name in computed:
                return Column(name, computed[name], is_wide)
            field = field or name
            assert field in row.__struct_fields__, f"{row.__name__} has no field {field}"
            return Column(name, lambda thing, _: _cell_of(field, getattr(thing, field)), is_wide)

        shown = [column(word, is_wide=False) for word in columns.split()]
        return cls([*shown, *(column(word, is_wide=True) for word in wide.split())], id)


class ActionOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """An action and its outcome."""

    id: str
    action: str
    changed: bool
    detail: str = ""


ACTION_OUTCOMES = Table.of(
    ActionOutcome,
    "id action outcome detail",
    outcome=lambda outcome, _: "done" if outcome.changed else "unchanged",
    id=lambda outcome: outcome.id,
)


def print_outcomes(outcomes: Sequence[ActionOutcome], printing: Printing) -> None:
    """Print the outcomes of actions."""
    print_rows(outcomes, ACTION_OUTCOMES, printing)


def show_list(
    fetch: Callable[[], Iterable[T]], table: Table[T], printing: Printing, *, watch: bool, limit: int
) -> None:
    """Print a list; with `watch`, until interrupted."""
    if watch:
        _watch(fetch, table, printing)
    rows = list(fetch()) if printing.is_human_readable else fetch()
    print_rows(rows, table, printing)
    if isinstance(rows, list) and len(rows) >= limit and sys.stderr.isatty():
        print_hint(f"showing the first {limit}; use --limit to see more")


def print_rows(rows: Iterable[T], table: Table[T], printing: Printing) -> None:
    """Print a list. JSON Lines are streamed unless they are sorted."""
    now = SystemClock().wall()
    listed = (
        rows if printing.sort is None and printing.output == "jsonl" else sort_rows(list(rows), table, printing, now)
    )
    match printing.output:
        case "name":
            for row in listed:
                click.echo(table.id(row))
        case "jsonl":
            for row in listed:
                click.echo(msgspec.json.encode(row))
        case "json" | "yaml":
            _print_value(listed, printing)
        case _:
            _print_table(list(listed), table, printing, now)


def print_one(thing: msgspec.Struct | msgspec.Raw, id: str, printing: Printing, print_text: Callable[[], None]) -> None:
    """Print one resource: as data, or in tables with a function of the command."""
    match printing.output:
        case "name":
            click.echo(id)
        case "jsonl":
            click.echo(msgspec.json.encode(thing))
        case "json" | "yaml":
            _print_value(thing, printing)
        case _:
            print_text()


def facts_of(thing: T, table: Table[T], printing: Printing) -> Facts:
    """Return the columns of one resource as facts."""
    now = SystemClock().wall()
    return [(column.name.replace("_", " "), _fact(column.read(thing, now), printing)) for column in table.columns]


def print_facts(*facts: Fact) -> None:
    """Print names and values in two columns; facts without a value are omitted."""
    now = SystemClock().wall()
    known = [(name, value) for name, value in facts if value not in {None, ""}]
    width = max(len(name) for name, _ in known)
    for name, value in known:
        click.echo(f"{name:<{width}}  {format_cell(value, now)}")


def print_error(error: MainspringError, output: str) -> None:
    """Print an error on stderr: a problem document, or a message and a hint."""
    if output in {"json", "jsonl", "yaml"}:
        from mainspring.client.responses import problem_of

        click.echo(msgspec.json.encode(problem_of(error)), err=True)
        return
    print_error_message(str(error), _CREDENTIAL_HINT if isinstance(error, Unauthenticated) else error.hint)


def print_error_message(message: str, hint: str = "") -> None:
    """Print an error message and a hint on stderr."""
    click.echo(f"{_styled('error:', 'red')} {message}", err=True)
    print_hint(hint)


def print_warnings(warnings: Iterable[Fault]) -> None:
    """Print warnings about files on stderr."""
    for warning in warnings:
        click.echo(f"warning: {warning.where}: {warning.why}", err=True)


def print_hint(hint: str) -> None:
    """Print a hint on stderr after a blank line; nothing if it is empty."""
    if hint:
        click.echo(f"\n{_styled('hint:', 'cyan')} {hint}", err=True)


def rich_table(rows: Sequence[T], table: Table[T], printing: Printing, now: datetime) -> RichTable:
    """Return the rows as a rich table. Rich is imported only for terminals."""
    from rich.table import Table as RichTable
    from rich.text import Text

    columns = choose_columns(table, printing)
    drawn = RichTable(box=None, padding=(0, 2, 0, 0), show_header=printing.headers, header_style="bold")
    lines = [[format_cell(column.read(row, now), now) for column in columns] for row in rows]
    titles = [column.name.upper().replace("_", " ") for column in columns]
    widths = [max(map(len, cells)) for cells in zip(titles, *lines, strict=True)]
    flexible = [place for place, column in enumerate(columns) if column.name in _FLEXIBLE_COLUMNS]
    if flexible:
        taken = sum(widths) + len(_GAP) * len(widths) - sum(widths[place] for place in flexible)
        max_width = max(_MIN_FLEXIBLE_WIDTH, (shutil.get_terminal_size().columns - taken) // len(flexible))
        for place in flexible:
            widths[place] = min(widths[place], max_width)
    # The last column absorbs the remaining excess, so that the others stay readable.
    excess = sum(widths) + len(_GAP) * len(widths) - shutil.get_terminal_size().columns
    widths[-1] = max(min(widths[-1], _MIN_FLEXIBLE_WIDTH), widths[-1] - max(0, excess))
    for title, width in zip(titles, widths, strict=True):
        drawn.add_column(title, no_wrap=True, overflow="ellipsis", width=width)
    for line in lines:
        drawn.add_row(*(Text(word, style=terminal.STYLES.get(word, "")) for word in line))
    return drawn


def choose_columns(table: Table[T], printing: Printing) -> list[Column[T]]:
    """Return the selected columns. Raises UsageError for an unknown one."""
    if not printing.columns:
        return [column for column in table.columns if printing.output == "wide" or not column.wide]
    return [_find_column(name, table, "--columns") for name in printing.columns]


def sort_rows(rows: list[T], table: Table[T], printing: Printing, now: datetime) -> list[T]:
    """Sort the rows; those without a value come last."""
    if printing.sort is None:
        return rows
    column = _find_column(printing.sort.removeprefix("-"), table, "--sort")
    known = [(value, row) for row in rows if (value := column.read(row, now)) is not None]
    unknown = [row for row in rows if column.read(row, now) is None]
    # Values of a column have the same type, so they are comparable.
    known.sort(key=lambda pair: pair[0], reverse=printing.sort.startswith("-"))
    return [row for _, row in known] + unknown


def _cell_of(field: str, value: Any) -> Cell:
    """Return the value of a field as a cell."""
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            return format_labels(value)
        case list() | tuple():
            return ",".join(value)
        case msgspec.Raw():
            return format_json(value)
        case int() | float() if (unit := field.rpartition("_")[2]) in _UNITS:
            return _UNITS[unit](value)
        case _:
            cell: Cell = value
            return cell


def format_labels(labels: dict[str, str]) -> str:
    """Format labels on one line; those without a value by name."""
    return " ".join(f"{name}={value}" if value else name for name, value in sorted(labels.items()))


def format_json(raw: msgspec.Raw) -> str | None:
    """Format user JSON on one line; None for null."""
    text = bytes(raw).decode(errors="replace")
    return None if text == "null" else text


def format_cell(value: Cell, now: datetime) -> str:
    """Format a value of a table."""
    match value:
        case None | "":
            return _NOTHING
        case datetime():
            return format_ago(value, now)
        case timedelta():
            return format_seconds(value.total_seconds())
        case _:
            # User input must not break lines or send control sequences to the terminal.
            return "".join(character if character.isprintable() else " " for character in str(value))


def format_number(number: int, noun: str) -> str:
    """Format a number with its noun: `1 run`, `2 runs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def format_ago(at: datetime, now: datetime) -> str:
    """Format a relative time in one unit: `12s ago`, or `in 5m`, rounded so that a 4h timer starts with `in 4h`."""
    seconds = (now - at).total_seconds()
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        if seconds >= size or (seconds >= 0 and unit == "s"):
            return f"{seconds // size:.0f}{unit} ago"
        if seconds < 0 and (round(-seconds) >= size or unit == "s"):
            return f"in {-seconds / size:.0f}{unit}"
    raise AssertionError("seconds are the last unit")


def format_time(at: datetime | None, printing: Printing) -> str:
    """Format a time to the second, in the selected or local time zone."""
    if at is None:
        return _NOTHING
    return at.astimezone(printing.zone).isoformat(sep=" ", timespec="seconds")


def format_when(at: datetime | None, printing: Printing) -> str | None:
    """Format a time and how long ago it is."""
    return None if at is None else f"{format_time(at, printing)} ({format_ago(at, SystemClock().wall())})"


def _print_table(rows: Sequence[T], table: Table[T], printing: Printing, now: datetime) -> None:
    if terminal.has_color(printing.color, sys.stdout) or terminal.is_interactive(sys.stdout):
        terminal.console(printing.color, sys.stdout).print(rich_table(rows, table, printing, now))
        return
    for line in plain_lines(rows, table, printing, now):
        click.echo(line)


def plain_lines(rows: Sequence[T], table: Table[T], printing: Printing, now: datetime) -> list[str]:
    """Format a table as aligned plain text."""
    columns = choose_columns(table, printing)
    cells = [[format_cell(column.read(row, now), now) for column in columns] for row in rows]
    if printing.headers:
        cells.insert(0, [column.name.upper().replace("_", " ") for column in columns])
    widths = [max((len(line[place]) for line in cells), default=0) for place in range(len(columns))]
    return [_GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def _watch(fetch: Callable[[], Iterable[T]], table: Table[T], printing: Printing) -> NoReturn:
    clock = SystemClock()
    if printing.is_human_readable and terminal.is_interactive(sys.stdout):

        def draw(rows: list[T]) -> RenderableType:
            now = clock.wall()
            return rich_table(sort_rows(rows, table, printing, now), table, printing, now)

        terminal.show_live(printing.color, lambda: list(fetch()), draw)
    shown: dict[str, T] = {}
    while True:
        changed = [row for row in fetch() if shown.get(table.id(row)) != row]
        _print_changed(changed, table, printing, first=not shown)
        sys.stdout.flush()
        shown.update((table.id(row), row) for row in changed)
        clock.pause(terminal.REFRESH_SECONDS)


def _print_changed(rows: list[T], table: Table[T], printing: Printing, *, first: bool) -> None:
    """Print new and changed rows, one per line."""
    if printing.is_human_readable:
        lines = plain_lines(rows, table, printing, SystemClock().wall())
        for line in lines if first else lines[1 if printing.headers else 0 :]:
            click.echo(line)
    else:
        for row in rows:
            click.echo(table.id(row) if printing.output == "name" else msgspec.json.encode(row))


def _fact(value: Cell, printing: Printing) -> str | int | None:
    if isinstance(value, timedelta):
        return format_seconds(value.total_seconds())
    return format_when(value, printing) if isinstance(value, datetime) else value


def _print_value(value: object, printing: Printing) -> None:
    encoded = msgspec.json.encode(value)
    if printing.output == "json":
        click.echo(msgspec.json.format(encoded, indent=2))
        return
    import yaml

    click.echo(yaml.safe_dump(msgspec.json.decode(encoded), sort_keys=False, allow_unicode=True), nl=False)


def _find_column(name: str, table: Table[T], option: str) -> Column[T]:
    wanted = name.lower().replace("-", "_")
    for column in table.columns:
        if column.name == wanted:
            return column
    known = ", ".join(column.name for column in table.columns)
    raise click.UsageError(f"{option}: there is no column {name}; choose from {known}")


def _styled(word: str, style: str) -> str:
    return click.style(word, fg=style, bold=True) if terminal.has_color("auto", sys.stderr) else word
