"""What tenants had of late, for those who have equal shares now (PLC-4)."""

from __future__ import annotations

from mainspring.core.fairness.recent_usage import PastUse
from mainspring.core.model.resources import Resources

POOL = Resources(4_000, 1 << 30)
CORE = Resources(1_000)


def had(past: PastUse, tenant: str, *, seconds: float = 1.0, weight: float = 1.0, room: Resources = CORE) -> None:
    """A tenant has had a room."""
    past.add(tenant, room, POOL, seconds=seconds, weight=weight)


def test_who_had_least_is_first_and_nobody_is_preferred_for_its_name() -> None:
    """By the part of the pool, the time and the weight."""
    past = PastUse()
    had(past, "long", seconds=9.0)
    had(past, "short")
    had(past, "heavy", seconds=9.0, weight=100.0)
    had(past, "large", room=Resources(2_000))

    tenants = ["long", "new-2", "large", "new-1", "short", "heavy"]
    assert past.least_first(tenants) == ["new-2", "new-1", "heavy", "short", "large", "long"]


def test_a_room_that_took_no_time_counts() -> None:
    """Tasks that take no time go round, too."""
    past = PastUse()
    had(past, "a", seconds=0.0)
    assert past.least_first(["a", "b"]) == ["b", "a"]


def test_who_comes_late_begins_where_those_are_who_are_served() -> None:
    """Nobody saves up more than one room comes to."""
    past = PastUse()
    for _ in range(100):
        past.serve("a")
        had(past, "a")
    had(past, "late")
    assert past.of("a") > past.of("late") > 0.97 * past.of("a")


def test_those_who_had_no_more_than_all_are_forgotten() -> None:
    """What is remembered is bounded by who was served of late."""
    past = PastUse()
    for number in range(5_000):
        for _ in range(3):
            past.serve(f"tenant-{number}")
            had(past, f"tenant-{number}")

    assert past.of("tenant-0") == 0.0
    assert past.of("tenant-4999") > 0.0
