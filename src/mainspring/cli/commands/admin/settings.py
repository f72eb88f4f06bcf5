"""`mainspring settings`: scheduler settings that can be changed at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    ConnectionOptions,
    Printing,
    ResourceGroup,
    with_connection_options,
    with_output_options,
    with_table_options,
)

if TYPE_CHECKING:
    from mainspring.protocol.rest.admin import SettingView

_why = click.option("--why", default="", help="Reason, recorded in the audit log.")


@click.group("settings", cls=ResourceGroup, invoke_without_command=True)
@with_table_options
@with_connection_options
@click.pass_context
def settings(ctx: click.Context, /, connection: ConnectionOptions, printing: Printing) -> None:
    """List run-time settings with their values and origins.

    \b
    Examples:
      mainspring settings
      mainspring settings set retries_per_second 500 --why "the disk is slow"
    """
    if ctx.invoked_subcommand is not None:
        return
    from mainspring.cli.render.admin_tables import SETTINGS
    from mainspring.cli.render.output import print_rows

    with connection.client() as client:
        print_rows(client.settings(), SETTINGS, printing)


@settings.command(name="set")
@click.argument("name", shell_complete=candidates.settings)
@click.argument("value")
@_why
@with_output_options
@with_connection_options
def change(connection: ConnectionOptions, printing: Printing, name: str, value: str, why: str) -> None:
    """Set NAME to VALUE on all servers, until it is reset.

    \b
    Examples:
      mainspring settings set retries_per_second 500 --why "the disk is slow"
    """
    with connection.client() as client:
        _print_setting(client.change_setting(name, _read_value(value), why), printing)


@settings.command("reset")
@click.argument("name", shell_complete=candidates.settings)
@_why
@with_output_options
@with_connection_options
def reset(connection: ConnectionOptions, printing: Printing, name: str, why: str) -> None:
    """Reset setting NAME to its default.

    \b
    Examples:
      mainspring settings reset retries_per_second
    """
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes

    with connection.client() as client:
        print_action_outcomes([ActionOutcome.of(name, "reset", client.reset_setting(name, why))], printing)


def _read_value(text: str) -> float | str:
    """Parse a number, or else return the text."""
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _print_setting(setting: SettingView, printing: Printing) -> None:
    from mainspring.cli.render.output import print_one

    print_one(setting, setting.name, printing, lambda: click.echo(f"{setting.name} = {setting.value}"))
