"""`mainspring config`: the effective configuration and its origins."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.options import (
    ConnectionOptions,
    Printing,
    with_connection_options,
    with_output_options,
    with_table_options,
)


@click.group("config")
def config() -> None:
    """Show the effective configuration and its files.

    \b
    Examples:
      mainspring config show --origin
      mainspring config path
    """


@config.command("show")
@click.argument("names", metavar="[NAME...]", nargs=-1)
@click.option("--origin", is_flag=True, help="Show the origin: option, variable, context or file.")
@with_table_options
@with_connection_options
def show(connection: ConnectionOptions, printing: Printing, names: tuple[str, ...], origin: bool) -> None:
    """Show the effective settings of commands, the server and the worker. Secrets are masked.

    \b
    Examples:
      mainspring config show
      mainspring config show --origin server.port server.store
      mainspring config show --origin --context prod server_url
    """
    from mainspring.cli.config.effective_config import effective_table, effective_values
    from mainspring.cli.render.output import print_rows

    found = effective_values(connection)
    if unknown := set(names) - {value.name for value in found}:
        from mainspring.core.text.suggestions import did_you_mean

        name = min(unknown)
        raise click.UsageError(f"unknown setting {name}{did_you_mean(name, (value.name for value in found))}")
    print_rows(
        [value for value in found if not names or value.name in names], effective_table(with_origin=origin), printing
    )


@config.command("path")
@with_output_options
def path(printing: Printing) -> None:
    """List the configuration files: contexts and project file.

    \b
    Examples:
      mainspring config path
    """
    from mainspring.cli.config.effective_config import FILES, files
    from mainspring.cli.render.output import print_rows

    print_rows(files(), FILES, printing)
