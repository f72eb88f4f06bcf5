"""`mainspring version`."""

from __future__ import annotations

import rich_click as click

from mainspring import __version__


@click.command()
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Form.")
def version(output: str) -> None:
    """Say which version this is."""
    if output == "json":
        import msgspec

        click.echo(msgspec.json.encode({"version": __version__}))
    else:
        click.echo(f"mainspring {__version__}")
