"""Facts about a resource: names and values in two columns."""

from __future__ import annotations

from datetime import datetime

import rich_click as click

from mainspring.cli.options import Printing
from mainspring.cli.render.output import format_ago, format_cell, format_time
from mainspring.protocol.clock import SystemClock


def print_facts(*facts: tuple[str, str | int | None]) -> None:
    """Print names and values in two columns; facts without a value are omitted."""
    now = SystemClock().wall()
    known = [(name, value) for name, value in facts if value not in {None, ""}]
    width = max(len(name) for name, _ in known)
    for name, value in known:
        click.echo(f"{name:<{width}}  {format_cell(value, now)}")


def format_when(at: datetime | None, printing: Printing) -> str | None:
    """Format a time and how long ago it is."""
    return None if at is None else f"{format_time(at, printing)} ({format_ago(at, SystemClock().wall())})"
