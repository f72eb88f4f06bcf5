"""Notices: filters of channels, and links."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mainspring.core.model.alerts import AlertKind, Severity
from mainspring.core.model.notices import AlertFilter, Notice, NoticeState, link_to_run, matches


def notice(severity: Severity = Severity.WARNING, tenant: str = "acme") -> Notice:
    """Something to tell."""
    return Notice(
        id="alert_1",
        state=NoticeState.FIRING,
        kind=AlertKind.STALLED,
        severity=severity,
        tenant=tenant,
        summary="load is stuck",
        details={},
        opened_at=datetime(2026, 3, 1, tzinfo=UTC),
    )


@pytest.mark.parametrize("severity", Severity)
@pytest.mark.parametrize("least", Severity)
def test_a_channel_gets_alerts_of_its_minimum_severity(severity: Severity, least: Severity) -> None:
    """Info, warning, high: in this order."""
    order = [Severity.INFO, Severity.WARNING, Severity.HIGH]

    assert matches(AlertFilter(min_severity=least), notice(severity)) == (order.index(severity) >= order.index(least))


def test_a_channel_of_a_tenant_gets_only_its_alerts() -> None:
    """Not what is the installation's, either."""
    assert [matches(AlertFilter(tenant="acme"), notice(tenant=tenant)) for tenant in ("acme", "globex", "")] == [
        True,
        False,
        False,
    ]
    assert all(matches(AlertFilter(), notice(tenant=tenant)) for tenant in ("acme", "globex", ""))


def test_a_channel_gets_the_kinds_that_it_names() -> None:
    """All if it names none."""
    assert matches(AlertFilter(kinds=frozenset({AlertKind.STALLED, AlertKind.RUN_STUCK})), notice())
    assert not matches(AlertFilter(kinds=frozenset({AlertKind.RUN_STUCK})), notice())


@pytest.mark.parametrize(
    ("address", "run", "link"),
    [
        ("https://m.example", "run_1", "https://m.example/api/v1/runs/run_1"),
        ("", "run_1", None),
        ("https://m.example", None, None),
    ],
)
def test_a_notice_links_to_its_run(address: str, run: str | None, link: str | None) -> None:
    """If it is about one, and the server knows its own address."""
    assert link_to_run(address, {"run": run, "task": "task_1"}) == link
