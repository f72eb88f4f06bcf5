"""Table of contexts, with tokens masked."""

from __future__ import annotations

import msgspec

from mainspring.cli.config.contexts import Context, Contexts
from mainspring.cli.config.secret_references import HIDDEN
from mainspring.cli.render.output import Column, Table


class ContextView(msgspec.Struct, frozen=True, kw_only=True):
    """A context."""

    name: str
    server: str
    tenant: str | None
    token: str | None
    """Masked; None if there is no token."""
    token_from: str | None
    """Reference to the token."""
    current: bool


CONTEXTS: Table[ContextView] = Table(
    [
        Column("current", lambda one, _: "*" if one.current else None),
        Column("name", lambda one, _: one.name),
        Column("server", lambda one, _: one.server),
        Column("tenant", lambda one, _: one.tenant),
        Column("token", lambda one, _: one.token),
        Column("token_from", lambda one, _: one.token_from, wide=True),
    ],
    id=lambda one: one.name,
)


def view(context: Context, contexts: Contexts) -> ContextView:
    """Return the view of a context."""
    return ContextView(
        name=context.name, server=context.server, tenant=context.tenant, token=HIDDEN if context.token else None,
        token_from=context.token, current=context.name == contexts.current,
    )  # fmt: skip


def views(contexts: Contexts) -> list[ContextView]:
    """Return the views of all contexts, by name."""
    return [view(one, contexts) for _, one in sorted(contexts.known.items())]
