"""`mainspring groups`: at most so many at a time, or in each period, across jobs and pools."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Noun, Printing, Reach, limited, prints, prints_rows, reaches_server, watched

_name = click.argument("name", shell_complete=candidates.groups)
_why = click.option("--why", default="", help="Why; it is kept with the deed.")


@click.group("groups", cls=Noun, invoke_without_command=True)
@watched
@limited(200)
@prints_rows
@reaches_server
@click.pass_context
def groups(ctx: click.Context, /, reach: Reach, printing: Printing, watch: bool, limit: int) -> None:
    """List groups of work: of what names a group, at most so many run at a time, or start in each period.

    A task or a job names its groups as `groups: [warehouse]`. A group that nobody has set limits nothing.

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
@click.option("--most", type=click.IntRange(min=0), help="How many.")
@click.option("--per", metavar="LENGTH", help="In each period of this length, such as 1m; `none`: at a time.")
@click.option("--note", help="What it is for.")
@prints
@reaches_server
def change(reach: Reach, printing: Printing, name: str, most: int | None, per: str | None, note: str | None) -> None:
    """Let at most so many of group NAME run at a time, or start in each period. What is not said stays as it is.

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
        raise click.UsageError("say --most, --per or --note")
    period = None if per is None else read_or_none("--per", per, seconds_of)
    with reach.client() as client:
        try:
            was: GroupView | None = client.group_named(name)
        except NotFound:
            was = None
        if was is None and most is None:
            raise click.UsageError(f"there is no group {name} yet: say --most")
        wish = GroupRequest(
            most=was.most if most is None and was is not None else most or 0,
            per_seconds=was.per_seconds if per is None and was is not None else period,
            note=(was.note if was is not None else "") if note is None else note,
        )
        group = client.put_group(name, wish, if_match=None if was is None else was.version)

    def for_people() -> None:
        how = "run at a time" if group.per_seconds is None else f"start every {say_seconds(group.per_seconds)}"
        click.echo(f"at most {group.most} of group {group.name} {how}, of tenant {group.tenant}")

    print_one(group, group.name, printing, for_people)


@groups.command("drop")
@_name
@_why
@prints
@reaches_server
def drop(reach: Reach, printing: Printing, name: str, why: str) -> None:
    """Take group NAME away: what names it is limited by it no more.

    \b
    Examples:
      mainspring groups drop warehouse
    """
    from mainspring.cli.render.actions import Deed, print_deeds

    with reach.client() as client:
        print_deeds([Deed.of(name, "drop", client.drop_group(name, why))], printing)
