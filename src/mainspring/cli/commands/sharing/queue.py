"""`mainspring queue`: utilization, service level and queues of a pool."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import rich_click as click
from msgspec.structs import asdict, replace

from mainspring.cli.options import ListCommand, Printing, pool_option, watch_option
from mainspring.cli.render import terminal
from mainspring.cli.render.output import format_ago, format_number, print_one, print_rows, rich_table, sort_rows
from mainspring.cli.render.quantities import TITLES, format_amount
from mainspring.cli.render.sharing_tables import QUEUES, RESERVATIONS, format_queued_counts
from mainspring.cli.resource import Session, with_table_session
from mainspring.client.client import Client
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.rest.sharing import Amounts, LevelView, QueueView

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import RenderableType


@click.command("queue", cls=ListCommand)
@pool_option("Pool to show; the server's default pool if omitted.")
@watch_option
@with_table_session
def queue(session: Session, pool: str | None, watch: bool) -> None:
    """Show the utilization, service level and queues of a pool.

    Queues are listed in dispatch order. A queue contains the tasks of a tenant with the same priority and resource
    request. -t shows only the queues and reservations of that tenant.

    \b
    Examples:
      mainspring queue
      mainspring queue --pool gpu -t acme
      mainspring queue -w
    """
    if watch:
        watch_queue(lambda: read_snapshot(session.watch_client, pool), session.printing)
    print_snapshot(read_snapshot(session.client, pool), session.printing)


class PoolSnapshot(QueueView, frozen=True, kw_only=True):
    """A pool and the service level of the cluster."""

    level: LevelView


def read_snapshot(client: Client, pool: str | None) -> PoolSnapshot:
    """Fetch a snapshot. With a client's tenant, only its queues and reservations are kept."""
    queue = client.queue(pool)
    if client.tenant is not None:
        queue = replace(
            queue,
            queues=[line for line in queue.queues if line.tenant == client.tenant],
            reservations=[reservation for reservation in queue.reservations if reservation.tenant == client.tenant],
        )
    return PoolSnapshot(**asdict(queue), level=client.level(queue.pool))


def print_snapshot(snapshot: PoolSnapshot, printing: Printing) -> None:
    """Print a snapshot."""

    def print_text() -> None:
        for line in headlines(snapshot, SystemClock().wall()):
            click.echo(line)
        if snapshot.queues:
            click.echo()
            print_rows(snapshot.queues, QUEUES, printing)
        if snapshot.reservations:
            click.echo("\nreservations:")
            print_rows(snapshot.reservations, RESERVATIONS, Printing(output=printing.output, color=printing.color))

    print_one(snapshot, snapshot.pool, printing, print_text)


def watch_queue(fetch: Callable[[], PoolSnapshot], printing: Printing) -> NoReturn:
    """Show snapshots until interrupted: redrawn on a terminal, otherwise printed on change."""
    if printing.is_human_readable and terminal.is_interactive(sys.stdout):
        terminal.show_live(printing.color, fetch, lambda snapshot: _render(snapshot, printing))
    clock = SystemClock()
    shown: PoolSnapshot | None = None
    while True:
        snapshot = fetch()
        if shown is None or differs(snapshot, shown):
            print_snapshot(snapshot, printing)
            sys.stdout.flush()
            shown = snapshot
        clock.pause(terminal.REFRESH_SECONDS)


def differs(snapshot: PoolSnapshot, shown: PoolSnapshot) -> bool:
    """Whether snapshots differ in anything but time. The start of a level is recomputed on each request: ignore it."""
    level = replace(snapshot.level, since=shown.level.since)
    return replace(snapshot, at=shown.at, level=level) != shown


def headlines(snapshot: PoolSnapshot, now: datetime) -> list[str]:
    """Describe the pool: capacity, waiting tasks and service level."""
    workers = format_number(snapshot.workers, "worker")
    lines = [f"pool {snapshot.pool}: {workers}, {_format_capacity(snapshot.used, snapshot.capacity)}"]
    if snapshot.stopping:
        lines.append(f"preempting: {format_number(snapshot.stopping, 'task')}")
    lines.append(f"waiting: {format_queued_counts(snapshot.waiting) or 'nothing'}")
    intake = format_queued_counts(snapshot.intake)
    if intake is not None:
        lines.append(f"runs in intake: {intake}")
    if snapshot.dispatch_paused_from is not None:
        lines.append(f"dispatch of {snapshot.dispatch_paused_from} and below is paused: the store is slow")
    return [*lines, *_format_level(snapshot.level, now)]


def _format_capacity(used: Amounts, capacity: Amounts) -> str:
    """Format the used part of the capacity."""
    parts = [
        f"{format_amount(resource, getattr(used, resource))} of {format_amount(resource, total)} {title}"
        for resource, title in TITLES.items()
        if (total := getattr(capacity, resource))
    ]
    return f"{', '.join(parts)} in use" if parts else "no capacity"


def _format_level(level: LevelView, now: datetime) -> list[str]:
    if level.level == "normal" and not level.shedding:
        return ["level: normal"]
    lines = [f"level: {level.level}, since {format_ago(level.since, now)}{f': {level.why}' if level.why else ''}"]
    if level.accepts < 1:
        lines.append(f"submissions are limited to {level.accepts:.0%} of the normal rate")
    if level.shedding:
        lines.append(f"load shedding: {level.shedding}")
    return lines


def _render(snapshot: PoolSnapshot, printing: Printing) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    now = SystemClock().wall()
    parts: list[RenderableType] = [Text("\n".join(headlines(snapshot, now))), Text()]
    parts.append(rich_table(sort_rows(snapshot.queues, QUEUES, printing, now), QUEUES, printing, now))
    if snapshot.reservations:
        parts += [Text("\nreservations:"), rich_table(snapshot.reservations, RESERVATIONS, Printing(), now)]
    return Group(*parts)
