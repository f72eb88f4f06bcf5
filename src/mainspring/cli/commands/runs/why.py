"""`mainspring why`: explain why something is waiting and what would help."""

from __future__ import annotations

import rich_click as click
from click.exceptions import Exit

from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    ConnectionOptions,
    Printing,
    watch_option,
    with_connection_options,
    with_table_options,
)


@click.command("why")
@click.argument("what", metavar="[ID]", required=False, shell_complete=candidates.everything)
@click.option(
    "--with", "changes", multiple=True, metavar="CHANGE",
    help="Of a task: what if? 'cpu 2', 'burst 8' or 'worker 8'. Repeatable.",
)  # fmt: skip
@click.option("--queue", is_flag=True, help="Summarize waiting tasks of a pool by reason.")
@click.option("--pool", shell_complete=candidates.pools, help="Pool of --queue.")
@click.option("--check", is_flag=True, help="Exit with 1 if it needs someone to act.")
@click.option("--markdown", is_flag=True, help="Print Markdown for tickets and chats.")
@watch_option
@with_table_options
@with_connection_options
def why(
    connection: ConnectionOptions, printing: Printing, what: str | None, changes: tuple[str, ...], queue: bool,
    pool: str | None,
    check: bool, markdown: bool, watch: bool,
) -> None:  # fmt: skip
    """Explain why a task, run, job or schedule is not running, and what would help.

    ID is a task or run id, `@latest`, RUN/TASK, JOB/TASK for the latest run of a job, or the name of a job or schedule;
    the default is `@latest`. Suggested actions have been tried by the scheduler on a copy of its state.

    \b
    Examples:
      mainspring why
      mainspring why etl/extract
      mainspring why nightly --check
      mainspring why etl/train --with 'cpu 2' --with 'priority P1'
      mainspring why --queue
    """
    from mainspring.cli.render.why_view import WhyRequest, WhyView

    if queue and (what or changes or check or markdown):
        raise click.UsageError("--queue is mutually exclusive with ID, --with, --check and --markdown")
    if pool is not None and not queue:
        raise click.UsageError("--pool requires --queue")
    with connection.watch_client() if watch else connection.client() as client:
        request = WhyRequest(what=what or "@latest", changes=changes, pool=pool, is_queue=queue, is_markdown=markdown)
        view = WhyView(client, printing, request)
        if watch:
            view.watch()
        is_problem = view.show(check=check)
    if is_problem:
        raise Exit(1)
