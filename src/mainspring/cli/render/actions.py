"""Print the outcomes of actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import msgspec

from mainspring.cli.options import Printing
from mainspring.cli.render.output import Column, Table, print_rows
from mainspring.protocol.rest.runs import ActionResult


class ActionOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """An action and its outcome."""

    id: str
    action: str
    changed: bool
    detail: str = ""

    @classmethod
    def of(cls, id: str, action: str, done: ActionResult) -> Self:
        """Return the outcome of an action on one resource."""
        return cls(id=id, action=action, changed=done.changed, detail=done.detail)


ACTION_OUTCOMES: Table[ActionOutcome] = Table(
    [
        Column("id", lambda outcome, _: outcome.id),
        Column("action", lambda outcome, _: outcome.action),
        Column("outcome", lambda outcome, _: "done" if outcome.changed else "unchanged"),
        Column("detail", lambda outcome, _: outcome.detail),
    ],
    id=lambda outcome: outcome.id,
)


def print_action_outcomes(outcomes: Sequence[ActionOutcome], printing: Printing) -> None:
    """Print the outcomes of actions."""
    print_rows(outcomes, ACTION_OUTCOMES, printing)
