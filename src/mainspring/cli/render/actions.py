"""Print the outcomes of actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import msgspec

from mainspring.cli.options import Printing
from mainspring.cli.render.output import Column, Table, print_rows
from mainspring.protocol.rest.runs import Done


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """An action and its outcome."""

    id: str
    act: str
    changed: bool
    detail: str = ""

    @classmethod
    def of(cls, id: str, act: str, done: Done) -> Self:
        """Return the outcome of an action on one resource."""
        return cls(id=id, act=act, changed=done.changed, detail=done.detail)


DEEDS: Table[Deed] = Table(
    [
        Column("id", lambda deed, _: deed.id),
        Column("action", lambda deed, _: deed.act),
        Column("outcome", lambda deed, _: "done" if deed.changed else "unchanged"),
        Column("detail", lambda deed, _: deed.detail),
    ],
    id=lambda deed: deed.id,
)


def print_deeds(deeds: Sequence[Deed], printing: Printing) -> None:
    """Print the outcomes of actions."""
    print_rows(deeds, DEEDS, printing)
