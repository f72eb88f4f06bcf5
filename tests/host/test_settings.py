"""What is changed while everything runs reaches every server within 5 s (OPS-5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio

from mainspring.core.model.audit_entry import INSTALLATION, AuditEntry
from mainspring.core.model.settings import SETTINGS, Tuning
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.host.config.settings import Settings
from mainspring.protocol.errors import Refused
from mainspring.store.ports.admin import MeasureRow
from tests.host.hall import Hall

RETRIES = SETTINGS["retries_per_second"]


def entry(number: int) -> AuditEntry:
    """Somebody changes a setting."""
    return AuditEntry(
        id=f"req_{number}", tenant=INSTALLATION, actor="token:ann", source="", act="put_setting", object="x"
    )


async def change(hall: Hall, name: str, value: str) -> None:
    """Somebody changes a setting on another server."""
    row = MeasureRow(name=name, value=value, version=0, updated_at=EPOCH, updated_by="ann", why="")
    await hall.store.put_measure(row, None, entry(1))


@pytest_asyncio.fixture
async def settings(hall: Hall) -> AsyncIterator[Settings]:
    """What is set on a server that was started with a value of its own."""
    settings = Settings(hall.store, hall.clock, {"retries_per_second": "70", "outbox_days": "3"})
    running = asyncio.create_task(settings.run())
    yield settings
    running.cancel()


async def test_what_was_changed_goes_before_what_was_given_and_that_before_what_is_built_in(
    hall: Hall, settings: Settings
) -> None:
    assert (settings.tuning.retries_per_second, settings.tuning.growth_burst) == (70, 2_000)

    await change(hall, "retries_per_second", "9")
    await hall.wait(5.0)
    assert (settings.value(RETRIES), settings.default(RETRIES)) == (9, 70)
    assert settings.tuning.retries_per_second == 9

    await hall.store.drop_measure("retries_per_second", entry(2))
    await hall.wait(5.0)
    assert settings.tuning.retries_per_second == 70


async def test_whoever_schedules_is_told_when_a_measure_changes_and_only_then(hall: Hall, settings: Settings) -> None:
    told: list[Tuning] = []
    settings.on_change = told.append

    await change(hall, "outbox_days", "5")
    await hall.wait(5.0)
    assert told == []
    assert settings.retention.ages()["outbox"] == timedelta(days=5)

    await change(hall, "growth_burst", "7")
    await hall.wait(5.0)
    assert [tuning.growth_burst for tuning in told] == [7]


async def test_what_a_server_can_not_use_it_leaves_as_it_was(hall: Hall, settings: Settings) -> None:
    """A newer version wrote it, or somebody by hand."""
    await change(hall, "growth_burst", "7")
    await hall.wait(5.0)
    for name, value in (("of_a_later_version", "1"), ("ready_burst", "many")):
        await change(hall, name, value)
        await hall.wait(5.0)

    assert (settings.tuning.growth_burst, settings.tuning.ready_burst) == (7, 5_000)


async def test_values_that_do_not_go_together_are_refused(hall: Hall, settings: Settings) -> None:
    with pytest.raises(Refused, match="suspect_after_seconds"):
        settings.check("suspect_after_seconds", "20")
    await change(hall, "lost_after_seconds", "60")
    await settings.refresh()

    settings.check("suspect_after_seconds", "20")


def test_a_server_does_not_start_with_what_it_can_not_use(hall: Hall) -> None:
    with pytest.raises(Refused) as refused:
        Settings(hall.store, hall.clock, {"retries_per_secnd": "1"})
    assert [fault.where for fault in refused.value.faults] == ["retries_per_secnd"]
