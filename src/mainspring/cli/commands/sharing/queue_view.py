"""Snapshot of a pool: utilization, service level and queues."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import rich_click as click
from msgspec.structs import asdict, replace

from mainspring.cli.options import Printing
from mainspring.cli.render import terminal
from mainspring.cli.render.output import print_one, print_rows, rich_table, say_ago, sort_rows
from mainspring.cli.render.quantities import TITLES, say_amount
from mainspring.cli.render.sharing_tables import KEPT_ROOMS, LINES, say_waiting
from mainspring.client.client import Client
from mainspring.protocol.clock import MachineClock
from mainspring.protocol.rest.sharing import Amounts, LevelView, QueueView

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import RenderableType

_EVERY_SECONDS = 1.0


class Moment(QueueView, frozen=True, kw_only=True):
    """A pool and the service level of the cluster."""

    level: LevelView


def read_moment(client: Client, pool: str | None) -> Moment:
    """Fetch a snapshot. With a client's tenant, only its queues and reservations are kept."""
    queue = client.queue(pool)
    if client.tenant is not None:
        queue = replace(
            queue,
            lines=[line for line in queue.lines if line.tenant == client.tenant],
            kept=[room for room in queue.kept if room.tenant == client.tenant],
        )
    return Moment(**asdict(queue), level=client.level(queue.pool))


def print_moment(moment: Moment, printing: Printing) -> None:
    """Print a snapshot."""

    def for_people() -> None:
        for line in headlines(moment, MachineClock().wall()):
            click.echo(line)
        if moment.lines:
            click.echo()
            print_rows(moment.lines, LINES, printing)
        if moment.kept:
            click.echo("\nreservations:")
            print_rows(moment.kept, KEPT_ROOMS, Printing(output=printing.output, color=printing.color))

    print_one(moment, moment.pool, printing, for_people)


def watch_queue(fetch: Callable[[], Moment], printing: Printing) -> NoReturn:
    """Show snapshots until interrupted: redrawn on a terminal, otherwise printed on change."""
    clock = MachineClock()
    moment = fetch()
    if printing.is_for_people and terminal.is_drawn_to(sys.stdout):
        with terminal.live_view(printing.color, lambda: _drawn(moment, printing)) as live:
            while True:
                clock.pause(_EVERY_SECONDS)
                moment = fetch()
                live.refresh()
    shown: Moment | None = None
    while True:
        if shown is None or differs(moment, shown):
            print_moment(moment, printing)
            sys.stdout.flush()
            shown = moment
        clock.pause(_EVERY_SECONDS)
        moment = fetch()


def differs(moment: Moment, shown: Moment) -> bool:
    """Whether snapshots differ in anything but time. The start of a level is recomputed on each request: ignore it."""
    level = replace(moment.level, since=shown.level.since)
    return replace(moment, at=shown.at, level=level) != shown


def headlines(moment: Moment, now: datetime) -> list[str]:
    """Describe the pool: capacity, waiting tasks and service level."""
    workers = "1 worker" if moment.workers == 1 else f"{moment.workers} workers"
    lines = [f"pool {moment.pool}: {workers}, {_say_room(moment.used, moment.capacity)}"]
    if moment.stopping:
        lines.append(f"preempting: {'1 task' if moment.stopping == 1 else f'{moment.stopping} tasks'}")
    lines.append(f"waiting: {say_waiting(moment.waiting) or 'nothing'}")
    intake = say_waiting(moment.intake)
    if intake is not None:
        lines.append(f"runs in intake: {intake}")
    if moment.held_from is not None:
        lines.append(f"dispatch of {moment.held_from} and below is paused: the store is slow")
    return [*lines, *_say_level(moment.level, now)]


def _say_room(used: Amounts, capacity: Amounts) -> str:
    """Format the used part of the capacity."""
    parts = [
        f"{say_amount(resource, getattr(used, resource))} of {say_amount(resource, whole)} {title}"
        for resource, title in TITLES.items()
        if (whole := getattr(capacity, resource))
    ]
    return f"{', '.join(parts)} in use" if parts else "no capacity"


def _say_level(level: LevelView, now: datetime) -> list[str]:
    if level.level == "normal" and not level.shedding:
        return ["level: normal"]
    lines = [f"level: {level.level}, since {say_ago(level.since, now)}{f': {level.why}' if level.why else ''}"]
    if level.accepts < 1:
        lines.append(f"submissions are limited to {level.accepts:.0%} of the normal rate")
    if level.shedding:
        lines.append(f"load shedding: {level.shedding}")
    return lines


def _drawn(moment: Moment, printing: Printing) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    now = MachineClock().wall()
    parts: list[RenderableType] = [Text("\n".join(headlines(moment, now))), Text()]
    parts.append(rich_table(sort_rows(moment.lines, LINES, printing, now), LINES, printing, now))
    if moment.kept:
        parts += [Text("\nreservations:"), rich_table(moment.kept, KEPT_ROOMS, Printing(), now)]
    return Group(*parts)
