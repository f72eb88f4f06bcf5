"""`mainspring top`: live overview of a server."""

from __future__ import annotations

import sys

import rich_click as click

from mainspring.cli.options import Printing, Reach, prints, reaches_server


@click.command("top")
@prints
@reaches_server
def top(reach: Reach, printing: Printing) -> None:
    """Show a live overview of running, waiting and failed work.

    ? lists the keys. Without a terminal, the overview is printed once.

    \b
    Examples:
      mainspring top
      mainspring top --context prod --utc
      mainspring top -o json
    """
    from mainspring.cli.commands.top.board import print_board, read_board
    from mainspring.cli.render import terminal

    if printing.is_for_people and terminal.is_drawn_to(sys.stdout) and sys.stdin.isatty():
        from mainspring.cli.commands.top.dashboard import Dashboard

        Dashboard(reach, printing).run()
        return
    with reach.client() as client:
        print_board(read_board(client), printing)
