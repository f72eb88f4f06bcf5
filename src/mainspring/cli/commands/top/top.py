"""`mainspring top`: live overview of a server."""

from __future__ import annotations

import sys

import rich_click as click

from mainspring.cli.options import ConnectionOptions, Printing, with_connection_options, with_output_options


@click.command("top")
@with_output_options
@with_connection_options
def top(connection: ConnectionOptions, printing: Printing) -> None:
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

    if printing.is_human_readable and terminal.is_interactive(sys.stdout) and sys.stdin.isatty():
        from mainspring.cli.commands.top.dashboard import Dashboard

        Dashboard(connection, printing).run()
        return
    with connection.client() as client:
        print_board(read_board(client), printing)
