"""Notifications of alerts, and the filter of each channel (OBS-6).

An episode is notified twice: when it begins and when it ends. Both notices have the episode's id. A notice is
self-contained: the recipient needs no access to the API to understand it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from mainspring.core.model.alerts import AlertKind, Severity

_WEIGHT = {severity: weight for weight, severity in enumerate(Severity)}


class NoticeState(StrEnum):
    """State of the episode."""

    FIRING = "firing"
    RESOLVED = "resolved"


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A notification, independent of the channel."""

    id: str
    """Id of the episode: the same when it begins and when it ends."""
    state: NoticeState
    kind: AlertKind
    severity: Severity
    tenant: str
    """Empty for the installation."""
    summary: str
    """One sentence: what is wrong, or how it ended."""
    details: dict[str, str | int | float | bool | None]
    opened_at: datetime
    resolved_at: datetime | None = None
    count: int = 1
    """Number of times it was raised."""
    link: str | None = None
    """URL of the run concerned, if any."""


class AlertFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Alert filter of a channel; a missing field matches everything."""

    tenant: str | None = None
    min_severity: Severity = Severity.INFO
    kinds: frozenset[AlertKind] = frozenset()
    """Empty: all."""


def matches(alert_filter: AlertFilter, notice: Notice) -> bool:
    """Return whether a notice passes a channel's filter."""
    return (
        alert_filter.tenant in {None, notice.tenant}
        and _WEIGHT[notice.severity] >= _WEIGHT[alert_filter.min_severity]
        and (not alert_filter.kinds or notice.kind in alert_filter.kinds)
    )


def link_to_run(address: str, details: Mapping[str, str | int | float | bool | None]) -> str | None:
    """Return the API URL of the run that `details` names, if it names one and the address is known."""
    run = details.get("run")
    return f"{address}/api/v1/runs/{run}" if address and run else None
