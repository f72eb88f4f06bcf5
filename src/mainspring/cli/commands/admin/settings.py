"""`mainspring settings`: scheduler settings that can be changed at run time."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ResourceGroup
from mainspring.cli.resource import Outcome, Session, action, why_option, with_session, with_table_session

_name = click.argument("name", shell_complete=candidates.settings)


@click.group("settings", cls=ResourceGroup)
@with_table_session
def settings(session: Session) -> None:
    """List run-time settings with their values and origins.

    \b
    Examples:
      mainspring settings
      mainspring settings set retries_per_second 500 --why "the disk is slow"
    """
    from mainspring.cli.render.tables import SETTINGS

    session.print_rows(session.client.settings(), SETTINGS)


@settings.command("set")
@_name
@click.argument("value")
@why_option()
@with_session
def change(session: Session, name: str, value: str, why: str) -> None:
    """Set NAME to VALUE on all servers, until it is reset.

    \b
    Examples:
      mainspring settings set retries_per_second 500 --why "the disk is slow"
    """
    setting = session.client.change_setting(name, _read_value(value), why)
    session.print_line(setting, setting.name, f"{setting.name} = {setting.value}")


@settings.command("reset")
@_name
@action()
def reset(session: Session, name: str, why: str) -> Outcome:
    """Reset setting NAME to its default.

    \b
    Examples:
      mainspring settings reset retries_per_second
    """
    return name, session.client.reset_setting(name, why)


def _read_value(text: str) -> float | str:
    """Parse a number, or else return the text."""
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text
