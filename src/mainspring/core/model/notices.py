"""What people are sent of an alert, and which channel wants it (OBS-6).

An episode is told twice: that it began and that it is over. Both notices have the episode's id. A notice is complete:
whoever gets it needs nothing of ours to understand it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from mainspring.core.model.alerts import AlertKind, Severity

_WEIGHT = {severity: weight for weight, severity in enumerate(Severity)}


class NoticeState(StrEnum):
    """What is told of an episode."""

    FIRING = "firing"
    RESOLVED = "resolved"


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent, whatever the channel."""

    id: str
    """Of the episode: the same when it began and when it is over."""
    state: NoticeState
    kind: AlertKind
    severity: Severity
    tenant: str
    """Empty if it is about the installation."""
    summary: str
    """One sentence: what is wrong, or how it ended."""
    details: dict[str, str | int | float | bool | None]
    opened_at: datetime
    resolved_at: datetime | None = None
    count: int = 1
    """How often it was raised."""
    link: str | None = None
    """Where the run is that it is about, if it is about one."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """Which alerts a channel wants; what is not said does not matter."""

    tenant: str | None = None
    min_severity: Severity = Severity.INFO
    kinds: frozenset[AlertKind] = frozenset()
    """Empty: all."""


def wants(wish: Wish, notice: Notice) -> bool:
    """Whether a channel with this wish is to be told."""
    return (
        wish.tenant in {None, notice.tenant}
        and _WEIGHT[notice.severity] >= _WEIGHT[wish.min_severity]
        and (not wish.kinds or notice.kind in wish.kinds)
    )


def link_to_run(address: str, details: Mapping[str, str | int | float | bool | None]) -> str | None:
    """Where the API shows the run that `details` names, if it names one and the address is known."""
    run = details.get("run")
    return f"{address}/api/v1/runs/{run}" if address and run else None
