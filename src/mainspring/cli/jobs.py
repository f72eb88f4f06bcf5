"""`mainspring jobs`."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.options import Printing, Reach, limited, prints_rows, reaches_server


@click.command()
@limited(100)
@prints_rows
@reaches_server
def jobs(reach: Reach, printing: Printing, limit: int) -> None:
    """List jobs, each in its latest version.

    \b
    Examples:
      mainspring jobs
      mainspring show etl
    """
    from mainspring.cli.listing import show_list
    from mainspring.cli.tables import JOBS

    with reach.client() as client:
        show_list(lambda: client.jobs(limit=limit), JOBS, printing, watch=False, limit=limit)
