"""`mainspring version`."""

from __future__ import annotations

import rich_click as click

from mainspring import __version__
from mainspring.cli.options import Printing, with_output_options


@click.command("version")
@with_output_options
def version(printing: Printing) -> None:
    """Print the version.

    \b
    Examples:
      mainspring version -o json
    """
    match printing.output:
        case "json" | "jsonl":
            click.echo(f'{{"version": "{__version__}"}}')
        case "yaml":
            click.echo(f"version: {__version__}")
        case "name":
            click.echo(__version__)
        case _:
            click.echo(f"mainspring {__version__}")
