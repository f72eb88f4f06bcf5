"""Validation of requests to run a known job (ADM-1, ADM-3)."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from mainspring.core.admission.validate_submission import Limits, check_run
from mainspring.protocol.errors import Fault
from tests.core.builders import NOON
from tests.core.submissions import LIMITS


def faults_of_run(
    *,
    tenant: str = "acme",
    params: str = "{}",
    priority: int = 1,
    submitted_by: str = "ann",
    start_at: datetime | None = None,
    key: str | None = None,
    limits: Limits = LIMITS,
) -> list[Fault]:
    """Return the faults of a request that is valid except for what is given."""
    return check_run(
        tenant=tenant, params=params, priority=priority, submitted_by=submitted_by, now=NOON, start_at=start_at,
        key=key, limits=limits,
    )  # fmt: skip


def test_a_valid_request_has_no_fault() -> None:
    """With all fields, at every priority, starting now, later or in the past."""
    assert faults_of_run() == []
    for priority in (0, 1, 2):
        for start_at in (NOON, NOON + timedelta(days=30), NOON - timedelta(days=9)):
            assert faults_of_run(params='{"a":[1]}', priority=priority, start_at=start_at, key="k-1") == []


@pytest.mark.parametrize(
    ("faults", "where", "why"),
    [
        (faults_of_run(tenant="Acme Inc"), "tenant", "is not a valid name"),
        (faults_of_run(tenant="a\0"), "tenant", "is not a valid name"),
        (faults_of_run(params="[]"), "params", "must be an object"),
        (faults_of_run(params="null"), "params", "must be an object"),
        (faults_of_run(params=""), "params", "is not JSON"),
        (faults_of_run(params='{"a":NaN}'), "params.a", "NaN"),
        (faults_of_run(params='{"a":"\\u0000"}'), "params.a", "NUL"),
        (faults_of_run(params='{"a":"\\ud800"}'), "params.a", "lone surrogate"),
        (faults_of_run(params='{"a":1,"a":2}'), "params", "more than once"),
        (faults_of_run(params='{"a":"' + "x" * 300_000 + '"}'), "params", "larger than 262144 bytes"),
        (faults_of_run(priority=3), "priority", "must be 0, 1 or 2"),
        (faults_of_run(priority=-1), "priority", "must be 0, 1 or 2"),
        (faults_of_run(submitted_by=""), "submitted_by", "1 to 256 characters"),
        (faults_of_run(submitted_by="a\0"), "submitted_by", "NUL"),
        (faults_of_run(key="x" * 257), "key", "1 to 256 characters"),
        (faults_of_run(key="\ud800"), "key", "lone surrogate"),
        (faults_of_run(start_at=datetime(2026, 1, 2)), "start_at", "time zone"),  # noqa: DTZ001
        (faults_of_run(start_at=NOON + timedelta(days=367)), "start_at", "within 366 days"),
    ],
)
def test_each_rule_of_a_run_is_checked(faults: list[Fault], where: str, why: str) -> None:
    """ADM-1, ADM-3: refused, not downgraded."""
    [fault] = faults
    assert fault.where == where
    assert why in fault.why


def test_a_run_with_several_faults_reports_them_all() -> None:
    """ADM-1."""
    faults = faults_of_run(tenant="?", params="[", priority=9, submitted_by="", key="")
    assert [fault.where for fault in faults] == ["tenant", "params", "priority", "submitted_by", "key"]
