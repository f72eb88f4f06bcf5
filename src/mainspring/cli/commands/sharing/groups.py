"""`mainspring groups`: concurrency and rate limits across jobs and pools."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Noun, Printing, Reach, limited, prints, prints_rows, reaches_server, watched

_name = click.argument("name", shell_complete=candidates.groups)
_why = click.option("--why", default="", help="Reason, recorded in the audit log.")


@click.group("groups", cls=Noun, invoke_without_command=True)
@watched
@limited(200)
@prints_rows
@reaches_server
@click.pass_context
def groups(ctx: click.Context, /, reach: Reach, printing: Printing, watch: bool, limit: int) -> None:
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

    with reach.client() as client:
        show_list(lambda: client.groups(limit=limit), GROUPS, printing, watch=watch, limit=limit)


@groups.command(name="set")
@_name
@click.option("--most", type=click.IntRange(min=0), metavar="NUMBER", help="Maximum number of tasks.")
@click.option("--per", metavar="DURATION", help="Period of a rate limit, such as 1m; `none` for concurrency.")
@click.option("--note", help="A note for other people.")
@prints
@reaches_server
def change(reach: Reach, printing: Printing, name: str, most: int | None, per: str | None, note: str | None) -> None:
    """Set the limit of group NAME: tasks at a time, or starts per period. Omitted options are unchanged.

    \b
    Examples:
      mainspring groups set warehouse --most 3
      mainspring groups set geocoder --most 100 --per 1m --note "what the contract allows"
    """
    from mainspring.cli.render.output import print_one
    from mainspring.cli.render.quantities import read_or_none
    from mainspring.definitions.quantities import say_seconds, seconds_of
    from mainspring.protocol.errors import NotFound
    from mainspring.protocol.rest.sharing import GroupRequest, GroupView

    if most is None and per is None and note is None:
        raise click.UsageError("use at least one of --most, --per and --note")
    period = None if per is None else read_or_none("--per", per, seconds_of)
    with reach.client() as client:
        try:
            was: GroupView | None = client.group_named(name)
        except NotFound:
            was = None
        if was is None and most is None:
            raise click.UsageError(f"group {name} does not exist; --most is required to create it")
        wish = GroupRequest(
            most=was.most if most is None and was is not None else most or 0,
            per_seconds=was.per_seconds if per is None and was is not None else period,
            note=(was.note if was is not None else "") if note is None else note,
        )
        group = client.put_group(name, wish, if_match=None if was is None else was.version)

    def for_people() -> None:
        per = "at a time" if group.per_seconds is None else f"per {say_seconds(group.per_seconds)}"
        click.echo(f"group {group.name} of tenant {group.tenant}: at most {group.most} {per}")

    print_one(group, group.name, printing, for_people)


@groups.command("drop")
@_name
@_why
@prints
@reaches_server
def drop(reach: Reach, printing: Printing, name: str, why: str) -> None:
    """Delete group NAME and its limit.

    \b
    Examples:
      mainspring groups drop warehouse
    """
    from mainspring.cli.render.actions import Deed, print_deeds

    with reach.client() as client:
        print_deeds([Deed.of(name, "drop", client.drop_group(name, why))], printing)
