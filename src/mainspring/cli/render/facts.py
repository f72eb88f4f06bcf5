"""Facts about a resource: names and values in two columns."""

from __future__ import annotations

from datetime import datetime

import rich_click as click

from mainspring.cli.options import Printing
from mainspring.cli.render.output import say, say_ago, say_time
from mainspring.protocol.clock import MachineClock


def print_facts(*facts: tuple[str, str | int | None]) -> None:
    """Print names and values in two columns; facts without a value are omitted."""
    now = MachineClock().wall()
    known = [(name, value) for name, value in facts if value not in {None, ""}]
    width = max(len(name) for name, _ in known)
    for name, value in known:
        click.echo(f"{name:<{width}}  {say(value, now)}")


def say_when(at: datetime | None, printing: Printing) -> str | None:
    """Format a time and how long ago it is."""
    return None if at is None else f"{say_time(at, printing)} ({say_ago(at, MachineClock().wall())})"
