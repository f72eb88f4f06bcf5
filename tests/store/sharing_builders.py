"""Structs for tests of sharing rules, with defaults for everything that a test is not about."""

from __future__ import annotations

from typing import Any

from mainspring.core.fairness.capacity_bookings import Booking
from mainspring.core.fairness.freezes import FreezeKind, FreezeRow
from mainspring.core.fairness.pools import Policy, PoolRow
from mainspring.core.fairness.quotas import Ceiling, P0Grant, Quota, QuotaOverride, QuotaRow
from mainspring.core.limits.concurrency_groups import GroupRow
from mainspring.core.limits.limit_shares import ShareRow
from mainspring.core.limits.rate_grants import RateRequest
from mainspring.core.model.batch import FailureCountRow
from mainspring.core.model.resources import Resources
from mainspring.core.schedules.time_zones import EPOCH
from tests.store.builders import HOUR, NOW

LIMIT = "group:acme/database"
"""The key of the limit of `a_group`."""

_KEPT = {"version": 0, "updated_at": EPOCH, "updated_by": "token:ann"}


def a_pool(**changes: Any) -> PoolRow:
    """A described pool: the time and the version are the store's."""
    values: dict[str, Any] = {
        "name": "eu", "labels": '{"region":"eu"}', "zones": ("a", "b"),
        "max_resources": Resources(cpu_millis=64_000), "note": "", **_KEPT,
    }  # fmt: skip
    return PoolRow(**(values | changes))


def a_policy(**changes: Any) -> Policy:
    """A policy."""
    values: dict[str, Any] = {
        "name": "gdpr", "label": "eu_data", "value": "", "requires": '{"region":"eu"}', "note": "", **_KEPT,
    }  # fmt: skip
    return Policy(**(values | changes))


def a_quota(**changes: Any) -> QuotaRow:
    """A quota, raised for an hour, with a nightly booking."""
    quota = Quota(weight=2.5, max_tasks=10, guaranteed=Resources(cpu_millis=8_000), burst=Ceiling(gpus=1))
    raised = QuotaOverride(quota=Quota(max_tasks=100), until=NOW + HOUR, by="token:bob", why="end of year")
    nightly = Booking(
        name="nightly", cron="0 2 * * *", zone="Europe/Paris", seconds=7_200, lead_seconds=600,
        guaranteed=Resources(cpu_millis=16_000), by="token:bob", why="the close",
    )  # fmt: skip
    values: dict[str, Any] = {
        "tenant": "acme", "pool": "eu", "quota": quota, "raised": raised, "bookings": (nightly,), **_KEPT,
    }  # fmt: skip
    return QuotaRow(**(values | changes))


def a_grant(**changes: Any) -> P0Grant:
    """A P0 grant."""
    values: dict[str, Any] = {"tenant": "acme", "by": "token:ann", "why": "on call", "since": EPOCH, "until": None}
    return P0Grant(**(values | changes))


def a_group(**changes: Any) -> GroupRow:
    """A concurrency group with a limit of three."""
    values: dict[str, Any] = {
        "tenant": "acme", "name": "database", "most": 3, "per_seconds": None, "note": "", **_KEPT,
    }  # fmt: skip
    return GroupRow(**(values | changes))


def a_freeze(**changes: Any) -> FreezeRow:
    """A freeze of a tenant."""
    values: dict[str, Any] = {
        "kind": FreezeKind.TENANT, "subject": "acme", "by": "token:ann", "why": "a leak", "since": EPOCH,
        "until": NOW + HOUR,
    }  # fmt: skip
    return FreezeRow(**(values | changes))


def a_share(**changes: Any) -> ShareRow:
    """A share of a limit."""
    values: dict[str, Any] = {"limit": LIMIT, "holder": "main", "granted": 1, "needed": 1}
    return ShareRow(**(values | changes))


def a_tally(**changes: Any) -> FailureCountRow:
    """The failure count of five minutes."""
    values: dict[str, Any] = {"shard": "main", "tenant": "acme", "since": NOW, "failures": 1}
    return FailureCountRow(**(values | changes))


def a_request(**changes: Any) -> RateRequest:
    """A request for one allowance of a rate of five per hour."""
    values: dict[str, Any] = {"limit": "submissions:acme", "most": 5, "per_seconds": 3_600.0, "wanted": 1}
    return RateRequest(**(values | changes))
