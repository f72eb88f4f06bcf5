"""`mainspring why`: why something does not go on, and what would change it."""

from __future__ import annotations

import rich_click as click
from click.exceptions import Exit

from mainspring.cli.completion import candidates
from mainspring.cli.options import Printing, Reach, prints_rows, reaches_server, watched


@click.command("why")
@click.argument("what", metavar="[ID]", required=False, shell_complete=candidates.everything)
@click.option(
    "--with", "changes", multiple=True, metavar="CHANGE",
    help="Of a task: what if this were so? Such as 'cpu 2', 'burst 8' or 'worker 8'; may be said several times.",
)  # fmt: skip
@click.option("--queue", is_flag=True, help="What the tasks of a pool wait for, by reason.")
@click.option("--pool", shell_complete=candidates.pools, help="Which pool, with --queue.")
@click.option("--check", is_flag=True, help="Exit with 1 if somebody has to do something about it.")
@click.option("--markdown", is_flag=True, help="Print Markdown, for a ticket or a chat.")
@watched
@prints_rows
@reaches_server
def why(
    reach: Reach, printing: Printing, what: str | None, changes: tuple[str, ...], queue: bool, pool: str | None,
    check: bool, markdown: bool, watch: bool,
) -> None:  # fmt: skip
    """Say why a task, run, job or schedule does not go on, since when, and what would change it.

    ID is that of a task or run, `@latest`, RUN/TASK, JOB/TASK for the latest run of a job, or the name of a job or
    schedule. Without one it is the latest run. What is offered as an act has been tried by the scheduler on a copy.

    \b
    Examples:
      mainspring why
      mainspring why etl/extract
      mainspring why nightly --check
      mainspring why etl/train --with 'cpu 2' --with 'priority P1'
      mainspring why --queue
    """
    from mainspring.cli.render.why_view import Asked, Whys

    if queue and (what or changes or check or markdown):
        raise click.UsageError("--queue is about a whole pool: say no ID, --with, --check or --markdown")
    if pool is not None and not queue:
        raise click.UsageError("--pool goes with --queue")
    with reach.watching_client() if watch else reach.client() as client:
        asked = Asked(what=what or "@latest", changes=changes, pool=pool, is_queue=queue, is_markdown=markdown)
        whys = Whys(client, printing, asked)
        if watch:
            whys.watch()
        is_problem = whys.show(check=check)
    if is_problem:
        raise Exit(1)
