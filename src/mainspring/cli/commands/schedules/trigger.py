"""`mainspring trigger` and `backfill`: run a schedule or job now, or past windows of a schedule."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import number_option, params_option
from mainspring.cli.resource import Session, why_option, with_session, with_table_session

if TYPE_CHECKING:
    from mainspring.client.client import Client
    from mainspring.protocol.rest.runs import RunView
    from mainspring.protocol.rest.schedules import BackfillView, FireView


@click.command("trigger")
@click.argument("name", shell_complete=candidates.schedules_or_jobs)
@params_option
@click.option("--window", metavar="TIME", help="Rerun this window of a schedule.")
@click.option("--idempotency-key", metavar="KEY", help="Triggering again with the same key returns the same run.")
@why_option("Reason, recorded in the audit log (schedules only).")
@click.option("--wait", is_flag=True, help="Wait for the run to end; exit with 1 unless it succeeds.")
@click.option("--timeout", metavar="DURATION", help="Give up after this long, such as 10m; exit with 124.")
@with_session
def trigger(
    session: Session, name: str, params: tuple[str, ...], window: str | None, idempotency_key: str | None, why: str,
    wait: bool, timeout: str | None,
) -> None:  # fmt: skip
    """Run a schedule or job now.

    NAME is a schedule, whose parameters and priority apply, or else a job.

    \b
    Examples:
      mainspring trigger nightly --wait
      mainspring trigger nightly --window 2026-11-15T05:30
      mainspring trigger etl -p day=2026-11-15 --idempotency-key 2026-11-15
    """
    from mainspring.cli.commands.runs.wait_for_run import wait_for_end
    from mainspring.cli.render.times import parse_params, parse_timeout
    from mainspring.protocol.rest.runs import RunView

    timeout_seconds = parse_timeout(timeout)
    given = parse_params(params)
    window_at = session.time(window, "--window")
    made = _trigger(session.client, name, given, window_at, idempotency_key, why)
    run_id = made.id if isinstance(made, RunView) else made.run_id or ""
    if wait:
        wait_for_end(session.watch_client, run_id, session.printing, timeout_seconds)
    else:
        session.print_line(made, run_id, run_id)


def _trigger(
    client: Client, name: str, params: dict[str, object], window_at: datetime | None, key: str | None, why: str
) -> RunView | FireView:
    """Trigger a schedule, or submit a run of a job. Raises NotFound if neither exists."""
    from mainspring.cli.resource_ids import find_schedule, submit_run
    from mainspring.protocol.errors import NotFound

    try:
        schedule = find_schedule(client, name)
    except NotFound:
        if window_at is not None:
            raise
    else:
        return client.trigger(schedule.id, params=params, window_at=window_at, why=why, idempotency_key=key)
    missing = NotFound(f"there is no schedule or job {name}{f' in tenant {client.tenant}' if client.tenant else ''}")
    missing.hint = "if it belongs to another tenant, use --tenant"
    return submit_run(lambda: client.submit(name, params=params, idempotency_key=key), missing)


_POLL_SECONDS = 0.5
_WAITING = "waiting"


@click.command("backfill")
@click.argument("name", shell_complete=candidates.schedules)
@click.option("--from", "since", metavar="TIME", required=True, help="Windows at or after this time.")
@click.option("--to", "before", metavar="TIME", required=True, help="Windows before this time.")
@number_option("--max-parallel", "Maximum number of concurrent runs.", 1)
@click.option("--again", is_flag=True, help="Include windows that have already run.")
@click.option("--dry-run", is_flag=True, help="Only list the windows and whether they would run.")
@click.option("--wait", is_flag=True, help="Wait for all runs; exit with 1 unless all succeed.")
@click.option("--timeout", metavar="DURATION", help="Give up after this long, such as 10m; exit with 124.")
@why_option()
@with_table_session
def backfill(
    session: Session, name: str, since: str, before: str, max_parallel: int, again: bool, dry_run: bool, wait: bool,
    timeout: str | None, why: str,
) -> None:  # fmt: skip
    """Run past windows of schedule NAME.

    Windows that have already run are skipped unless --again is given.

    \b
    Examples:
      mainspring backfill nightly --from 2026-11-01 --to 2026-11-15 --dry-run
      mainspring backfill nightly --from 2026-11-01 --to 2026-11-15 --max-parallel 4 --wait
    """
    from mainspring.cli.render.times import parse_time, parse_timeout
    from mainspring.cli.resource_ids import find_schedule
    from mainspring.protocol.rest.schedules import BackfillRequest

    timeout_seconds = parse_timeout(timeout)
    request = BackfillRequest(
        since=parse_time(since, "--from", session.printing), before=parse_time(before, "--to", session.printing),
        max_parallel=max_parallel, again=again, dry_run=dry_run, why=why,
    )  # fmt: skip
    made = session.client.backfill(find_schedule(session.client, name).id, request)
    _print_backfill(session, made, is_plan=dry_run)
    if wait and made.id is not None:
        sys.exit(_wait_for_backfill(session.watch_client, made.schedule_id, made, timeout_seconds))


def _print_backfill(session: Session, made: BackfillView, *, is_plan: bool) -> None:
    """Print every window for dry runs and machine-readable output; otherwise a summary."""
    from mainspring.cli.render.output import print_hint
    from mainspring.cli.render.tables import windows_table

    def print_text() -> None:
        if is_plan:
            session.print_rows(made.windows, windows_table(session.printing))
        verb = "would run" if is_plan else "run"
        click.echo(f"{made.wanted} of {made.total} windows {verb}, {made.max_parallel} at a time")
        if len(made.windows) < made.total:
            print_hint(f"only the first {len(made.windows)} windows are included; repeat the command for the rest")

    session.print_one(made, made.id or made.schedule_id, print_text)


def _wait_for_backfill(client: Client, name: str, backfill: BackfillView, timeout_seconds: float | None) -> int:
    """Wait until every window has ended. Returns the exit code: 0 if all succeeded, 1 if not, 124 on timeout."""
    from mainspring.cli.commands.runs.wait_for_run import TIMED_OUT
    from mainspring.cli.render import terminal
    from mainspring.cli.render.output import print_error_message
    from mainspring.protocol.clock import SystemClock

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
