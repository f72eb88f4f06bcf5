"""Conditional changes with versions (RFC 9110)."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.protocol.rest.admin import TenantView
from tests.api.api_harness import ApiHarness, pointers, problem, read, submit

HOURLY: dict[str, Any] = {"name": "hourly", "job": "noop", "trigger": {"kind": "cron", "cron": "0 * * * *"}}
THINGS = {
    "/api/v1/schedules/hourly": ({"definition": HOURLY}, {"definition": {**HOURLY, "priority": "P0"}}),
    "/api/v1/tenants/acme": ({"title": "Acme"}, {"title": "Acme Ltd"}),
    "/api/v1/settings/fan_out_burst": ({"value": 7}, {"value": 8}),
    "/api/v1/pools/eu": ({"labels": {"region": "eu"}}, {}),
    "/api/v1/tenants/acme/quota": ({"max_tasks": 7}, {"max_tasks": 8}),
    "/api/v1/groups/db": ({"most": 7}, {"most": 8}),
}


@pytest.mark.parametrize("url", THINGS)
async def test_a_change_requires_the_named_version(harness: ApiHarness, url: str) -> None:
    admin = await harness.admin()
    await submit(admin)
    first, second = THINGS[url]
    assert (await admin.put(url, json=first)).headers["etag"] == '"1"'
    assert (await admin.get(url)).headers["etag"] == '"1"'

    changed = await admin.put(url, json=second, headers={"If-Match": '"1"'})
    assert (changed.status_code, changed.headers["etag"]) == (200, '"2"')

    body = problem(await admin.put(url, json=first, headers={"If-Match": '"1"'}), 412)
    assert body["code"] == "outdated"
    assert "version 2" in body["detail"]
    assert (await admin.get(url)).headers["etag"] == '"2"'
    assert (await admin.put(url, json=second, headers={"If-Match": '"1", "2"'})).is_success


@pytest.mark.parametrize("url", THINGS)
async def test_a_known_version_is_not_sent_again(harness: ApiHarness, url: str) -> None:
    admin = await harness.admin()
    await submit(admin)
    await admin.put(url, json=THINGS[url][0])

    for known in ('"1"', 'W/"1"', '"0", "1"', "*"):
        answer = await admin.get(url, headers={"If-None-Match": known})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", '"1"')
    assert (await admin.get(url, headers={"If-None-Match": '"0"'})).status_code == 200


async def test_a_star_matches_any_existing_version(harness: ApiHarness) -> None:
    admin = await harness.admin()
    await submit(admin)
    any_version = {"If-Match": "*"}

    for url in ("/api/v1/schedules/hourly", "/api/v1/tenants/never"):
        problem(await admin.put(url, json=THINGS.get(url, ({}, {}))[0], headers=any_version), 412)
    read(await admin.put("/api/v1/tenants/default", json={"note": "ours"}, headers=any_version), TenantView)


async def test_a_changed_resource_is_not_deleted_with_an_old_version(harness: ApiHarness) -> None:
    admin = await harness.admin()
    await submit(admin)
    for url in THINGS.keys() - {"/api/v1/tenants/acme", "/api/v1/pools/eu"}:
        for body in THINGS[url]:
            await admin.put(url, json=body)

        problem(await admin.delete(url, headers={"If-Match": '"1"'}), 412)
        assert (await admin.delete(url, headers={"If-Match": '"2"'})).is_success


async def test_a_schedule_accepts_its_version_in_the_query(harness: ApiHarness) -> None:
    admin = await harness.admin()
    await submit(admin)
    first, second = THINGS["/api/v1/schedules/hourly"]
    url = "/api/v1/schedules/hourly"

    problem(await admin.put(url, json=first, params={"version": "1"}), 412)
    await admin.put(url, json=first)
    assert (await admin.put(url, json=second, params={"version": "1"})).is_success
    problem(await admin.put(url, json=first, params={"version": "1"}), 412)


@pytest.mark.parametrize("header", ["1", '"1', '"a""b"', "", 'W/1, "2"'])
async def test_a_header_without_a_version_is_rejected(harness: ApiHarness, header: str) -> None:
    admin = await harness.admin()

    body = problem(await admin.put("/api/v1/tenants/acme", json={}, headers={"If-Match": header}), 422)

    assert list(pointers(body)) == ["header:If-Match"]
