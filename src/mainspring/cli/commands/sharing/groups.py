"""`mainspring groups`: concurrency and rate limits across jobs and pools."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    ConnectionOptions,
    Printing,
    ResourceGroup,
    limit_option,
    watch_option,
    with_connection_options,
    with_output_options,
    with_table_options,
)

_name = click.argument("name", shell_complete=candidates.groups)
_why = click.option("--why", default="", help="Reason, recorded in the audit log.")


@click.group("groups", cls=ResourceGroup, invoke_without_command=True)
@watch_option
@limit_option(200)
@with_table_options
@with_connection_options
@click.pass_context
def groups(ctx: click.Context, /, connection: ConnectionOptions, printing: Printing, watch: bool, limit: int) -> None:
    """List groups, which limit how many tasks run concurrently or start per period.

    Tasks and jobs join groups with `groups: [warehouse]`. A group that is not set has no limit.

    \b
    Examples:
      mainspring groups
      mainspring groups set warehouse --most 3
    """
    if ctx.invoked_subcommand is not None:
        return
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.sharing_tables import GROUPS

    with connection.client() as client:
        show_list(lambda: client.groups(limit=limit), GROUPS, printing, watch=watch, limit=limit)


@groups.command(name="set")
@_name
@click.option("--most", type=click.IntRange(min=0), metavar="NUMBER", help="Maximum number of tasks.")
@click.option("--per", metavar="DURATION", help="Period of a rate limit, such as 1m; `none` for concurrency.")
@click.option("--note", help="A note for other people.")
@with_output_options
@with_connection_options
def change(
    connection: ConnectionOptions, printing: Printing, name: str, most: int | None, per: str | None, note: str | None
) -> None:
    """Set the limit of group NAME: tasks at a time, or starts per period. Omitted options are unchanged.

    \b
    Examples:
      mainspring groups set warehouse --most 3
      mainspring groups set geocoder --most 100 --per 1m --note "what the contract allows"
    """
    from mainspring.cli.render.output import print_one
    from mainspring.cli.render.quantities import parse_or_none
    from mainspring.core.text.durations import format_seconds, parse_seconds
    from mainspring.protocol.errors import NotFound
    from mainspring.protocol.rest.sharing import GroupRequest, GroupView

    if most is None and per is None and note is None:
        raise click.UsageError("use at least one of --most, --per and --note")
    period = None if per is None else parse_or_none("--per", per, parse_seconds)
    with connection.client() as client:
        try:
            was: GroupView | None = client.group_named(name)
        except NotFound:
            was = None
        if was is None and most is None:
            raise click.UsageError(f"group {name} does not exist; --most is required to create it")
        request = GroupRequest(
            most=was.most if most is None and was is not None else most or 0,
            per_seconds=was.per_seconds if per is None and was is not None else period,
            note=(was.note if was is not None else "") if note is None else note,
        )
        group = client.put_group(name, request, if_match=None if was is None else was.version)

    def print_text() -> None:
        per = "at a time" if group.per_seconds is None else f"per {format_seconds(group.per_seconds)}"
        click.echo(f"group {group.name} of tenant {group.tenant}: at most {group.most} {per}")

    print_one(group, group.name, printing, print_text)


@groups.command("drop")
@_name
@_why
@with_output_options
@with_connection_options
def drop(connection: ConnectionOptions, printing: Printing, name: str, why: str) -> None:
    """Delete group NAME and its limit.

    \b
    Examples:
      mainspring groups drop warehouse
    """
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes

    with connection.client() as client:
        print_action_outcomes([ActionOutcome.of(name, "drop", client.drop_group(name, why))], printing)
