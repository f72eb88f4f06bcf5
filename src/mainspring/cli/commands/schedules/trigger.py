"""`mainspring trigger`: run a schedule or job now."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import params_option
from mainspring.cli.resource import Session, why_option, with_session

if TYPE_CHECKING:
    from mainspring.client.client import Client
    from mainspring.protocol.rest.runs import RunView
    from mainspring.protocol.rest.schedules import FireView


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

    NAME is a schedule, which has its parameters and priority, or else a job.

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
    made = _trigger(session.client, name, given, session.time(window, "--window"), idempotency_key, why)
    run_id = made.id if isinstance(made, RunView) else made.run_id or ""
    if wait:
        wait_for_end(session.watch_client, run_id, session.printing, timeout_seconds)
    else:
        session.print_line(made, run_id, run_id)


def _trigger(
    client: Client, name: str, params: dict[str, object], window_at: datetime | None, key: str | None, why: str
) -> RunView | FireView:
    """Trigger a schedule, or submit a run of a job. Raises NotFound if neither exists."""
    from mainspring.cli.resource_ids import find_schedule, is_unknown_job
    from mainspring.protocol.errors import NotFound, Refused

    try:
        schedule = find_schedule(client, name)
    except NotFound:
        if window_at is not None:
            raise
    else:
        return client.trigger(schedule.id, params=params, window_at=window_at, why=why, idempotency_key=key)
    try:
        return client.submit(name, params=params, idempotency_key=key)
    except Refused as refused:
        if not is_unknown_job(refused):
            raise
        where = f" in tenant {client.tenant}" if client.tenant else ""
        missing = NotFound(f"there is no schedule or job {name}{where}")
        missing.hint = "if it belongs to another tenant, use --tenant"
        raise missing from refused
