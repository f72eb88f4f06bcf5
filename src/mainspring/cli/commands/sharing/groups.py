"""`mainspring groups`: concurrency and rate limits across jobs and pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ResourceGroup
from mainspring.cli.resource import Listing, Outcome, Session, action, listing, with_session

if TYPE_CHECKING:
    from mainspring.protocol.rest.sharing import GroupView

_name = click.argument("name", shell_complete=candidates.groups)


@click.group("groups", cls=ResourceGroup)
@listing(200)
def groups(session: Session, limit: int) -> Listing[GroupView]:
    """List groups: concurrency and rate limits shared by tasks.

    Tasks and jobs join groups with `groups: [warehouse]`. A group that is not set has no limit.

    \b
    Examples:
      mainspring groups
      mainspring groups set warehouse --most 3
    """
    from mainspring.cli.render.sharing_tables import GROUPS

    return GROUPS, lambda: session.client.groups(limit=limit)


@groups.command("set")
@_name
@click.option("--most", type=click.IntRange(min=0), metavar="NUMBER", help="Maximum number of tasks.")
@click.option("--per", metavar="DURATION", help="Period of a rate limit, such as 1m; `none` for concurrency.")
@click.option("--note", metavar="TEXT", help="Note, shown in lists.")
@with_session
def change(session: Session, name: str, most: int | None, per: str | None, note: str | None) -> None:
    """Set the limit of group NAME: tasks at a time, or starts per period.

    Omitted options are unchanged.

    \b
    Examples:
      mainspring groups set warehouse --most 3
      mainspring groups set geocoder --most 100 --per 1m --note "what the contract allows"
    """
    import msgspec

    from mainspring.cli.render.quantities import parse_or_none
    from mainspring.core.text.durations import format_seconds, parse_seconds
    from mainspring.protocol.errors import NotFound
    from mainspring.protocol.rest.sharing import GroupRequest

    changes: dict[str, object] = {
        field: value for field, value in (("most", most), ("note", note)) if value is not None
    }
    if per is not None:
        changes["per_seconds"] = parse_or_none("--per", per, parse_seconds)
    if not changes:
        raise click.UsageError("use at least one of --most, --per and --note")
    try:
        was = session.client.group_named(name)
        version, known = was.version, msgspec.convert(was, GroupRequest, from_attributes=True)
    except NotFound:
        if most is None:
            raise click.UsageError(f"group {name} does not exist; --most is required to create it") from None
        version, known = None, GroupRequest(most=most)
    group = session.client.put_group(name, msgspec.structs.replace(known, **changes), if_match=version)
    limit = "at a time" if group.per_seconds is None else f"per {format_seconds(group.per_seconds)}"
    text = f"group {group.name} of tenant {group.tenant}: at most {group.most} {limit}"
    session.print_line(group, group.name, text)


@groups.command("drop")
@_name
@action()
def drop(session: Session, name: str, why: str) -> Outcome:
    """Delete group NAME and its limit.

    \b
    Examples:
      mainspring groups drop warehouse
    """
    return name, session.client.drop_group(name, why)
