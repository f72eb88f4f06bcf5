"""Waiting for a backfill: a bar at a terminal, and at the end how its windows went."""

from __future__ import annotations

from collections import Counter

import rich_click as click

from mainspring.cli.commands.runs.wait_for_run import TIMED_OUT
from mainspring.cli.render import terminal
from mainspring.cli.render.output import say_error
from mainspring.client.client import Client
from mainspring.protocol.clock import MachineClock
from mainspring.protocol.rest.schedules import BackfillView

_LOOK_SECONDS = 0.5
_WAITING = "waiting"


def wait_for_backfill(client: Client, name: str, backfill: BackfillView, timeout_seconds: float | None) -> int:
    """Wait until every window of it is over; the exit code: 0 if all succeeded, 124 if the time was over first."""
    clock = MachineClock()
    until = None if timeout_seconds is None else clock.monotonic() + timeout_seconds
    with terminal.bar("windows", backfill.wanted) as advance:
        while True:
            ends = Counter(
                fire.run_state or (_WAITING if fire.outcome in {"ran", "waiting"} else fire.outcome)
                for fire in client.fires(name, backfill=backfill.id)
            )
            over = ends.total() - ends[_WAITING]
            advance(over)
            if over >= backfill.wanted:
                break
            if until is not None and clock.monotonic() >= until:
                say_error(f"{over} of {backfill.wanted} windows are over after {timeout_seconds:g} s", "they go on")
                return TIMED_OUT
            clock.pause(_LOOK_SECONDS)
    words = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()) if count)
    click.echo(f"{over} windows are over: {words}" if words else "there was nothing to run", err=True)
    return int(over != ends["SUCCEEDED"])
