"""Wait for a backfill with a progress bar, and print a summary."""

from __future__ import annotations

from collections import Counter

import rich_click as click

from mainspring.cli.commands.runs.wait_for_run import TIMED_OUT
from mainspring.cli.render import terminal
from mainspring.cli.render.output import print_error_message
from mainspring.client.client import Client
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.rest.schedules import BackfillView

_POLL_SECONDS = 0.5
_WAITING = "waiting"


def wait_for_backfill(client: Client, name: str, backfill: BackfillView, timeout_seconds: float | None) -> int:
    """Wait until every window has ended. Returns the exit code: 0 if all succeeded, 1 if not, 124 on timeout."""
    clock = SystemClock()
    until = None if timeout_seconds is None else clock.monotonic() + timeout_seconds
    with terminal.progress_bar("windows", backfill.wanted) as advance:
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
                print_error_message(
                    f"{over} of {backfill.wanted} windows ended after {timeout_seconds:g} s", "the backfill continues"
                )
                return TIMED_OUT
            clock.pause(_POLL_SECONDS)
    words = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()) if count)
    click.echo(f"{over} windows ended: {words}" if words else "nothing to run", err=True)
    return int(over != ends["SUCCEEDED"])
