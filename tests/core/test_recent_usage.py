"""Recent usage, the tie-breaker between equal shares (PLC-4)."""

from __future__ import annotations

from mainspring.core.fairness.recent_usage import RecentUsage
from mainspring.core.model.resources import Resources

POOL = Resources(4_000, 1 << 30)
CORE = Resources(1_000)


def had(past: RecentUsage, tenant: str, *, seconds: float = 1.0, weight: float = 1.0, room: Resources = CORE) -> None:
    """Charge a tenant for a lease."""
    past.add(tenant, room, POOL, seconds=seconds, weight=weight)


def test_the_least_usage_is_first_and_names_do_not_matter() -> None:
    """By the fraction of the pool, the time and the weight."""
    past = RecentUsage()
    had(past, "long", seconds=9.0)
    had(past, "short")
    had(past, "heavy", seconds=9.0, weight=100.0)
    had(past, "large", room=Resources(2_000))

    tenants = ["long", "new-2", "large", "new-1", "short", "heavy"]
    assert past.least_used_first(tenants) == ["new-2", "new-1", "heavy", "short", "large", "long"]


def test_a_lease_that_took_no_time_counts() -> None:
    """Tasks that take no time take turns, too."""
    past = RecentUsage()
    had(past, "a", seconds=0.0)
    assert past.least_used_first(["a", "b"]) == ["b", "a"]


def test_a_late_tenant_begins_at_the_level_of_those_that_are_served() -> None:
    """No tenant saves up more than one lease."""
    past = RecentUsage()
    for _ in range(100):
        past.serve("a")
        had(past, "a")
    had(past, "late")
    assert past.of("a") > past.of("late") > 0.97 * past.of("a")


def test_tenants_at_the_common_level_are_forgotten() -> None:
    """Memory is bounded by the recently served tenants."""
    past = RecentUsage()
    for number in range(5_000):
        for _ in range(3):
            past.serve(f"tenant-{number}")
            had(past, f"tenant-{number}")

    assert past.of("tenant-0") == 0.0
    assert past.of("tenant-4999") > 0.0
