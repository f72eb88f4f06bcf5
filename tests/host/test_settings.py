"""Changes of settings at run time reach every server within 5 s (OPS-5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio

from mainspring.core.model.audit_entry import INSTALLATION, AuditEntry
from mainspring.core.model.settings import SETTINGS, SchedulerSettings
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.host.config.settings import Settings
from mainspring.protocol.errors import Refused
from mainspring.store.ports.admin import SettingOverride
from tests.host.host_harness import HostHarness

RETRIES = SETTINGS["retries_per_second"]


def entry(number: int) -> AuditEntry:
    """The audit entry of a change."""
    return AuditEntry(
        id=f"req_{number}", tenant=INSTALLATION, actor="token:ann", source="", action="put_setting", object="x"
    )


async def change(harness: HostHarness, name: str, value: str) -> None:
    """Change a setting on another server."""
    row = SettingOverride(name=name, value=value, version=0, updated_at=EPOCH, updated_by="ann", why="")
    await harness.store.put_setting_override(row, None, entry(1))


@pytest.fixture
def changes() -> list[SchedulerSettings]:
    """The settings passed to `on_change`."""
    return []


@pytest_asyncio.fixture
async def settings(harness: HostHarness, changes: list[SchedulerSettings]) -> AsyncIterator[Settings]:
    """The settings of a server that was started with an option."""
    given = {"retries_per_second": "70", "outbox_days": "3"}
    settings = Settings(harness.store, harness.clock, given, changes.append)
    running = asyncio.create_task(settings.run())
    yield settings
    running.cancel()


async def test_changes_override_options_and_options_override_defaults(harness: HostHarness, settings: Settings) -> None:
    assert (settings.scheduler_settings.retries_per_second, settings.scheduler_settings.fan_out_burst) == (70, 2_000)

    await change(harness, "retries_per_second", "9")
    await harness.wait(5.0)
    assert (settings.value(RETRIES), settings.default(RETRIES)) == (9, 70)
    assert settings.scheduler_settings.retries_per_second == 9

    await harness.store.drop_setting_override("retries_per_second", entry(2))
    await harness.wait(5.0)
    assert settings.scheduler_settings.retries_per_second == 70


async def test_on_change_is_called_only_for_changes(
    harness: HostHarness, settings: Settings, changes: list[SchedulerSettings]
) -> None:

    await change(harness, "outbox_days", "5")
    await harness.wait(5.0)
    assert changes == []
    assert settings.retention.ages()["outbox"] == timedelta(days=5)

    await change(harness, "fan_out_burst", "7")
    await harness.wait(5.0)
    assert [scheduler_settings.fan_out_burst for scheduler_settings in changes] == [7]


async def test_a_server_ignores_values_that_it_can_not_use(harness: HostHarness, settings: Settings) -> None:
    """Written by a newer version, or manually."""
    await change(harness, "fan_out_burst", "7")
    await harness.wait(5.0)
    for name, value in (("of_a_later_version", "1"), ("ready_burst", "many")):
        await change(harness, name, value)
        await harness.wait(5.0)

    assert (settings.scheduler_settings.fan_out_burst, settings.scheduler_settings.ready_burst) == (7, 5_000)


async def test_inconsistent_values_are_refused(harness: HostHarness, settings: Settings) -> None:
    with pytest.raises(Refused, match="suspect_after_seconds"):
        settings.check("suspect_after_seconds", "20")
    await change(harness, "lost_after_seconds", "60")
    await settings.refresh()

    settings.check("suspect_after_seconds", "20")


def test_a_server_does_not_start_with_invalid_options(harness: HostHarness) -> None:
    with pytest.raises(Refused) as refused:
        Settings(harness.store, harness.clock, {"retries_per_secnd": "1"})
    assert [fault.where for fault in refused.value.faults] == ["retries_per_secnd"]
