"""Settings are changed over the API, with reasons, limits and versions (OPS-5)."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.protocol.rest.admin import AuditView, SettingView
from mainspring.protocol.rest.runs import ActionResult, Page
from tests.api.api_harness import ApiHarness, pointers, problem, read

URL = "/api/v1/settings/retries_per_second"


async def test_a_setting_is_changed_and_reset(harness: ApiHarness) -> None:
    admin = await harness.admin()
    was = read(await admin.get(URL), SettingView)

    changed = read(await admin.put(URL, json={"value": 9, "why": "the database is slow"}), SettingView)
    assert (was.origin, was.value, was.version) == ("default", 5_000, 0)
    assert (changed.origin, changed.value, changed.default, changed.version) == ("changed", 9, 5_000, 1)
    assert changed.updated_by == "token:a-test"
    assert harness.engine.settings.scheduler_settings.retries_per_second == 9

    assert read(await admin.delete(URL, params={"why": "it is not"}), ActionResult).changed
    assert not read(await admin.delete(URL), ActionResult).changed
    assert read(await admin.get(URL), SettingView) == was
    assert harness.engine.settings.scheduler_settings.retries_per_second == 5_000
    reported = read(await admin.get("/api/v1/audit", params={"object": "retries_per_second"}), Page[AuditView]).items
    assert [(one.action, one.why, one.tenant) for one in reported] == [
        ("reset_setting", "", "*"), ("reset_setting", "it is not", "*"), ("put_setting", "the database is slow", "*"),
    ]  # fmt: skip
    assert [bytes(side) for side in (reported[2].before, reported[2].after)] == [b"5000", b"9"]


async def test_a_leader_applies_a_changed_setting(harness: ApiHarness) -> None:
    admin = await harness.admin()
    async with harness.led() as leader:
        read(await admin.put(URL, json={"value": 9}), SettingView)

        assert leader.scheduler_settings.retries_per_second == 9


@pytest.mark.parametrize("value", [0, -1, 1.5, 10**9, "many", ""])
async def test_an_invalid_setting_is_rejected_with_its_limits(harness: ApiHarness, value: Any) -> None:
    admin = await harness.admin()

    body = problem(await admin.put(URL, json={"value": value}), 422)

    assert list(pointers(body)) == ["/value"]
    assert "from 1 to" in body["errors"][0]["detail"]


@pytest.mark.parametrize("value", [10, 10.0, "10"])
async def test_numbers_are_accepted_in_any_notation(harness: ApiHarness, value: Any) -> None:
    admin = await harness.admin()

    assert read(await admin.put(URL, json={"value": value}), SettingView).value == 10


async def test_conflicting_settings_are_reported(harness: ApiHarness) -> None:
    admin = await harness.admin()

    body = problem(await admin.put("/api/v1/settings/suspect_after_seconds", json={"value": 3_000}), 422)

    assert "lost_after_seconds" in body["errors"][0]["detail"]


async def test_the_list_has_all_settings_with_their_limits(harness: ApiHarness) -> None:
    admin = await harness.admin()

    items = read(await admin.get("/api/v1/settings"), Page[SettingView]).items

    assert {"fan_out_burst", "outbox_days", "audit_days"} < {item.name for item in items}
    assert all(item.minimum <= item.value <= item.maximum and item.about for item in items)


async def test_an_unknown_setting_is_not_found(harness: ApiHarness) -> None:
    admin = await harness.admin()

    for method in ("GET", "PUT", "DELETE"):
        problem(await admin.request(method, "/api/v1/settings/never", json={"value": 1}), 404)
