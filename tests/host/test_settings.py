"""Changes of settings at run time reach every server within 5 s (OPS-5)."""

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
    """The audit entry of a change."""
    return AuditEntry(
        id=f"req_{number}", tenant=INSTALLATION, actor="token:ann", source="", act="put_setting", object="x"
    )


async def change(hall: Hall, name: str, value: str) -> None:
    """Change a setting on another server."""
    row = MeasureRow(name=name, value=value, version=0, updated_at=EPOCH, updated_by="ann", why="")
    await hall.store.put_measure(row, None, entry(1))


@pytest_asyncio.fixture
async def settings(hall: Hall) -> AsyncIterator[Settings]:
    """The settings of a server that was started with an option."""
    settings = Settings(hall.store, hall.clock, {"retries_per_second": "70", "outbox_days": "3"})
    running = asyncio.create_task(settings.run())
    yield settings
    running.cancel()


async def test_changes_override_options_and_options_override_defaults(hall: Hall, settings: Settings) -> None:
    assert (settings.tuning.retries_per_second, settings.tuning.growth_burst) == (70, 2_000)

    await change(hall, "retries_per_second", "9")
    await hall.wait(5.0)
    assert (settings.value(RETRIES), settings.default(RETRIES)) == (9, 70)
    assert settings.tuning.retries_per_second == 9

    await hall.store.drop_measure("retries_per_second", entry(2))
    await hall.wait(5.0)
    assert settings.tuning.retries_per_second == 70


async def test_on_change_is_called_only_for_changes(hall: Hall, settings: Settings) -> None:
    told: list[Tuning] = []
    settings.on_change = told.append

    await change(hall, "outbox_days", "5")
    await hall.wait(5.0)
    assert told == []
    assert settings.retention.ages()["outbox"] == timedelta(days=5)

    await change(hall, "growth_burst", "7")
    await hall.wait(5.0)
    assert [tuning.growth_burst for tuning in told] == [7]


async def test_a_server_ignores_values_that_it_can_not_use(hall: Hall, settings: Settings) -> None:
    """Written by a newer version, or manually."""
    await change(hall, "growth_burst", "7")
    await hall.wait(5.0)
    for name, value in (("of_a_later_version", "1"), ("ready_burst", "many")):
        await change(hall, name, value)
        await hall.wait(5.0)

    assert (settings.tuning.growth_burst, settings.tuning.ready_burst) == (7, 5_000)


async def test_inconsistent_values_are_refused(hall: Hall, settings: Settings) -> None:
    with pytest.raises(Refused, match="suspect_after_seconds"):
        settings.check("suspect_after_seconds", "20")
    await change(hall, "lost_after_seconds", "60")
    await settings.refresh()

    settings.check("suspect_after_seconds", "20")


def test_a_server_does_not_start_with_invalid_options(hall: Hall) -> None:
    with pytest.raises(Refused) as refused:
        Settings(hall.store, hall.clock, {"retries_per_secnd": "1"})
    assert [fault.where for fault in refused.value.faults] == ["retries_per_secnd"]
