"""Commands on a resource: lists, and actions on one or several objects.

    @click.group("groups", cls=ResourceGroup)
    @listing(limit=200)
    def groups(session: Session, limit: int) -> Listing[GroupView]:
        return GROUPS, lambda: session.client.groups(limit=limit)

    @groups.command("drop")
    @click.argument("name")
    @action()
    def drop(session: Session, name: str, why: str) -> Outcome:
        return name, session.client.drop_group(name, why)

The decorators add the options, open the client, and print what the function returns.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import rich_click as click
from click.globals import get_current_context

from mainspring.cli.options import (
    Call,
    ConnectionOptions,
    Printing,
    confirm,
    limit_option,
    watch_option,
    with_confirmation,
    with_connection_options,
    with_output_options,
    with_table_options,
)

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    import msgspec

    from mainspring.cli.render.output import Facts, Table
    from mainspring.client.client import Client
    from mainspring.protocol.rest.runs import ActionResult

T = TypeVar("T", bound="msgspec.Struct")
Listing: TypeAlias = "tuple[Table[T], Callable[[], Iterable[T]]]"
"""A table, and the function that fetches its rows."""
Outcome: TypeAlias = "tuple[str, ActionResult]"
"""The id of an object, and the result of the action on it."""

AUDITED = "Reason, recorded in the audit log."


class Session:
    """The connection and the output options of a command."""

    def __init__(self, connection: ConnectionOptions, printing: Printing, stack: ExitStack) -> None:
        self.connection = connection
        self.printing = printing
        self._stack = stack

    @cached_property
    def client(self) -> Client:
        """The client. It is opened when it is first used: after the arguments have been checked."""
        return self._stack.enter_context(self.connection.client())

    @cached_property
    def watch_client(self) -> Client:
        """The client of live views, which survive a restart or failover of the server."""
        return self._stack.enter_context(self.connection.watch_client())

    def client_of(self, tenant: str | None) -> Client:
        """Open a client for a tenant; None for that of the connection."""
        connection = replace(self.connection, tenant=tenant or self.connection.tenant)
        return self._stack.enter_context(connection.client())

    def time(self, text: str | None, option: str) -> datetime | None:
        """Parse the time of an option; None if it is omitted. Raises UsageError."""
        from mainspring.cli.render.times import parse_time

        return None if text is None else parse_time(text, option, self.printing)

    def print_rows(self, rows: Iterable[T], table: Table[T]) -> None:
        """Print a list."""
        from mainspring.cli.render.output import print_rows

        print_rows(rows, table, self.printing)

    def print_one(self, thing: msgspec.Struct, id: str, print_text: Callable[[], None]) -> None:
        """Print one resource: as data, or in tables with a function of the command."""
        from mainspring.cli.render.output import print_one

        print_one(thing, id, self.printing, print_text)

    def print_line(self, thing: msgspec.Struct, id: str, text: str) -> None:
        """Print one resource: as data, or in tables as a line of text."""
        self.print_one(thing, id, lambda: click.echo(text))

    def print_details(self, thing: T, table: Table[T], more: Facts = ()) -> None:
        """Print one resource: as data, or in tables as facts, each on a line."""
        from mainspring.cli.render.output import facts_of, print_facts

        self.print_one(thing, table.id(thing), lambda: print_facts(*facts_of(thing, table, self.printing), *more))

    def print_outcomes(self, outcomes: Iterable[Outcome]) -> None:
        """Print the outcomes of the current command, whose name is the action."""
        from mainspring.cli.render.output import ActionOutcome, print_outcomes

        verb = get_current_context().command.name or ""
        done = [
            ActionOutcome(id=one, action=verb, changed=result.changed, detail=result.detail) for one, result in outcomes
        ]
        print_outcomes(done, self.printing)


def why_option(about: str = AUDITED) -> Callable[[Call], Call]:
    """Add --why to a command that changes something."""
    return click.option("--why", metavar="REASON", default="", help=about)


def with_session(command: Callable[..., None]) -> Callable[..., None]:
    """Add connection and output options to a command that prints one resource; it gets a session."""
    return with_output_options(with_connection_options(_in_session(command)))


def with_table_session(command: Callable[..., None]) -> Callable[..., None]:
    """Add connection, output and table options to a command that prints a list; it gets a session."""
    return with_table_options(with_connection_options(_in_session(command)))


def listing(limit: int) -> Callable[[Callable[..., Listing[Any]]], Callable[..., None]]:
    """Make a function that returns a `Listing` a command that prints it once or watches it.

    Of a group, the list is printed if no subcommand is given.
    """

    def decorate(command: Callable[..., Listing[Any]]) -> Callable[..., None]:
        @functools.wraps(command)
        def call(session: Session, watch: bool, limit: int, **rest: object) -> None:
            from mainspring.cli.render.output import show_list

            table, fetch = command(session, limit=limit, **rest)
            show_list(fetch, table, session.printing, watch=watch, limit=limit)

        return watch_option(limit_option(limit)(with_table_session(call)))

    return decorate


def action(why: str = AUDITED) -> Callable[[Callable[..., Outcome]], Callable[..., None]]:
    """Make a function that returns an `Outcome` a command that performs an action and prints its outcome."""

    def decorate(command: Callable[..., Outcome]) -> Callable[..., None]:
        @functools.wraps(command)
        def call(session: Session, **rest: object) -> None:
            session.print_outcomes([command(session, **rest)])

        return why_option(why)(with_session(call))

    return decorate


def action_on_each(
    items: str, *, why: bool = True, argument: str = "ids"
) -> Callable[[Callable[..., Outcome]], Callable[..., None]]:
    """Make a function that returns the `Outcome` for one id a command for several ids.

    `argument` is the name of the command's argument with the ids. Several `items` require confirmation.
    """

    def decorate(command: Callable[..., Outcome]) -> Callable[..., None]:
        @functools.wraps(command)
        def call(session: Session, yes: bool, **rest: Any) -> None:
            act_on_each(session, command, rest.pop(argument), items, yes=yes, **rest)

        asked = with_confirmation(with_session(call))
        return why_option()(asked) if why else asked

    return decorate


def act_on_each(
    session: Session, act: Callable[..., Outcome], ids: Sequence[str], items: str, *, yes: bool, **rest: object
) -> None:
    """Perform an action on each id and print the outcomes. Asks for confirmation if there are several."""
    if len(ids) > 1:
        confirm(f"{get_current_context().command.name} {len(ids)} {items}?", yes=yes)
    session.print_outcomes([act(session, one, **rest) for one in ids])


def _in_session(command: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(command)
    def call(*, connection: ConnectionOptions, printing: Printing, **rest: object) -> None:
        if get_current_context().invoked_subcommand is None:
            with ExitStack() as stack:
                command(Session(connection, printing, stack), **rest)

    return call
