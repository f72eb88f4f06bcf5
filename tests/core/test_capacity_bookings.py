"""Capacity bookings apply from their lead to the end of their window, in their zone, and lower nothing (PLC-11)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mainspring.core.admission.validate_job import Faults
from mainspring.core.fairness.capacity_bookings import Booking, check, largest
from mainspring.core.fairness.quotas import Quota, QuotaOverride, QuotaRow
from mainspring.core.model.resources import ZERO_RESOURCES, Resources

DAY = datetime(2026, 1, 10, tzinfo=UTC)
NIGHTLY = Booking(
    name="nightly", cron="0 2 * * *", zone="UTC", seconds=7200, lead_seconds=600,
    guaranteed=Resources(cpu_millis=16_000),
)  # fmt: skip


def at(text: str) -> datetime:
    """A time of that day."""
    return datetime.fromisoformat(f"2026-01-10T{text}+00:00")


@pytest.mark.parametrize(
    ("time", "holds"),
    [("01:49:59", False), ("01:50:00", True), ("02:00:00", True), ("03:59:59", True), ("04:00:00", False)],
)
def test_it_holds_from_its_lead_to_its_end(time: str, holds: bool) -> None:
    assert NIGHTLY.holds_at(at(time)) is holds


def test_its_zone_counts_also_where_the_clocks_change() -> None:
    """In Paris 02:00 of the last Sunday of March is never shown: the window begins when 03:00 is."""
    paris = replace(NIGHTLY, zone="Europe/Paris", lead_seconds=0, seconds=3600)
    assert paris.holds_at(datetime(2026, 1, 10, 1, 30, tzinfo=UTC))
    assert paris.holds_at(datetime(2026, 3, 29, 1, 0, tzinfo=UTC))
    assert not paris.holds_at(datetime(2026, 3, 29, 0, 59, tzinfo=UTC))
    assert paris.holds_at(datetime(2026, 7, 1, 0, 30, tzinfo=UTC))


def test_when_it_begins_and_ends_is_known() -> None:
    assert NIGHTLY.changes_at(at("00:00:00")) == at("01:50:00")
    assert NIGHTLY.changes_at(at("01:50:00")) == at("04:00:00")
    assert NIGHTLY.changes_at(at("04:00:00")) == at("01:50:00") + timedelta(days=1)
    assert NIGHTLY.next_at(at("02:00:00")) == at("02:00:00") + timedelta(days=1)


@given(minutes=st.integers(0, 3 * 1440), seconds=st.integers(60, 40_000), lead=st.integers(0, 40_000))
def test_between_two_changes_nothing_changes(minutes: int, seconds: int, lead: int) -> None:
    booking = replace(NIGHTLY, seconds=seconds, lead_seconds=lead)
    now = DAY + timedelta(minutes=minutes)
    change = booking.changes_at(now)
    assert change is not None
    assert change > now
    assert booking.holds_at(change - timedelta(microseconds=1)) is booking.holds_at(now)
    assert booking.holds_at(change) is not booking.holds_at(now)


def test_the_largest_guarantee_applies_per_resource() -> None:
    promised = Resources(cpu_millis=20_000, memory_bytes=1)
    also = replace(NIGHTLY, guaranteed=Resources(gpus=2, memory_bytes=3))
    assert largest(promised, (NIGHTLY, also), at("03:00:00")) == Resources(cpu_millis=20_000, memory_bytes=3, gpus=2)
    assert largest(promised, (NIGHTLY, also), at("05:00:00")) is promised


def test_bookings_apply_on_top_of_a_temporary_quota() -> None:
    raised = QuotaOverride(
        quota=Quota(max_tasks=5, guaranteed=Resources(gpus=1)), until=at("03:00:00"), by="ann", why=""
    )
    row = QuotaRow(
        tenant="acme", pool="", quota=Quota(weight=2.0), raised=raised, version=1, updated_at=DAY, updated_by="ann",
        bookings=(NIGHTLY,),
    )  # fmt: skip
    assert row.at(at("01:00:00")) is raised.quota
    assert row.at(at("02:30:00")) == Quota(max_tasks=5, guaranteed=Resources(gpus=1, cpu_millis=16_000))
    assert row.at(at("03:30:00")) == Quota(weight=2.0, guaranteed=Resources(cpu_millis=16_000))
    assert row.at(at("04:00:00")) is row.quota
    changes, now = [], at("01:00:00")
    for _ in range(3):
        change = row.changes_at(now)
        assert change is not None
        changes.append(change)
        now = change
    assert changes == [at("01:50:00"), at("03:00:00"), at("04:00:00")]


@pytest.mark.parametrize(
    ("change", "where", "why"),
    [
        ({"name": "No Name"}, "name", "is not a valid name"),
        ({"cron": "0 25 * * *"}, "cron", "25 is not from 0 to 23"),
        ({"cron": "nonsense"}, "cron", "has 1 field"),
        ({"cron": "0 0 30 2 *"}, "cron", "window"),
        ({"zone": "Mars/Base"}, "zone", "Mars/Base"),
        ({"seconds": 0}, "seconds", "at least a minute"),
        ({"cron": "0 2 1 * *", "seconds": 8 * 86_400}, "seconds", "at most a week"),
        ({"cron": "0 * * * *"}, "seconds", "less than 3600"),
        ({"seconds": 86_400 - 600}, "seconds", "less than 86400"),
        ({"lead_seconds": -1}, "lead_seconds", "must be from 0"),
        ({"lead_seconds": 100_000}, "lead_seconds", "at most a day"),
        ({"guaranteed": ZERO_RESOURCES}, "guaranteed", "at least one resource"),
    ],
)
def test_an_invalid_booking_is_refused(change: dict[str, Any], where: str, why: str) -> None:
    faults = Faults()
    check(replace(NIGHTLY, **change), DAY, faults)
    assert [(fault.where, why in fault.why) for fault in faults.named if fault.where == where] == [(where, True)]


def test_a_valid_booking_has_no_faults() -> None:
    faults = Faults()
    check(NIGHTLY, DAY, faults)
    check(replace(NIGHTLY, seconds=86_400 - 601), DAY, faults)
    assert faults.named == []
