"""Schedules over the API: create, change, pause, trigger, delete and validation."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec
import pytest

from mainspring.api.auth.principal import Role
from mainspring.protocol.rest.runs import ActionResult, Page, RunView
from mainspring.protocol.rest.schedules import ChangeView, FireView, ScheduleView, UpcomingView
from tests.api.api_harness import NOOP, ApiHarness, all_pages, pointers, problem, read

HOURLY: dict[str, Any] = {"name": "hourly", "job": "noop", "trigger": {"kind": "cron", "cron": "0 * * * *"}}
PATH = "/api/v1/schedules"


async def _planner(harness: ApiHarness, tenant: str = "acme") -> httpx2.AsyncClient:
    """Return a client whose tenant has a job."""
    caller = await harness.admin(tenant)
    assert (await caller.post("/api/v1/jobs", json=NOOP)).is_success
    return caller


async def _create(caller: httpx2.AsyncClient, **fields: object) -> ScheduleView:
    answer = await caller.post(PATH, json={"definition": {**HOURLY, **fields}, "why": "asked for"})
    view: ScheduleView = read(answer, ScheduleView)
    return view


async def test_a_schedule_is_created_and_found_by_name_and_id(harness: ApiHarness) -> None:
    caller = await _planner(harness)

    answer = await caller.post(PATH, json={"definition": {**HOURLY, "priority": "P0", "params": {"a": 1}}})

    made = read(answer, ScheduleView)
    assert answer.status_code == 201
    assert answer.headers["location"] == f"{PATH}/{made.id}"
    assert (made.name, made.job, made.state, made.version) == ("hourly", "noop", "active", 1)
    assert "every hour" in made.trigger
    assert made.next_at is not None
    assert made.next_at.minute == 0
    assert b'"priority":"P0"' in bytes(made.definition)
    assert b'"params":{"a":1}' in bytes(made.definition)
    for reference in ("hourly", made.id):
        assert read(await caller.get(f"{PATH}/{reference}"), ScheduleView).id == made.id
    (listed,) = read(await caller.get(PATH), Page[ScheduleView]).items
    assert listed.definition is msgspec.UNSET


async def test_a_taken_name_is_a_conflict_and_put_replaces_it(harness: ApiHarness) -> None:
    caller = await _planner(harness)
    made = await _create(caller)

    taken = await caller.post(PATH, json={"definition": HOURLY})
    same = await caller.put(f"{PATH}/hourly", json={"definition": HOURLY})
    changed = await caller.put(f"{PATH}/hourly", json={"definition": {**HOURLY, "max_active": 2}, "why": "more"})
    new = await caller.put(f"{PATH}/other", json={"definition": {**HOURLY, "name": "other"}})
    wrong = await caller.put(f"{PATH}/third", json={"definition": HOURLY})
    stale = await caller.put(f"{PATH}/hourly", json={"definition": HOURLY}, params={"version": 1})

    assert problem(taken, 409)["code"] == "conflict"
    assert read(same, ScheduleView).version == 1
    assert (read(changed, ScheduleView).id, read(changed, ScheduleView).version) == (made.id, 2)
    assert new.status_code == 201
    assert problem(stale, 412)["code"] == "outdated"
    assert pointers(problem(wrong, 422)) == ["/definition/name"]
    changes = read(await caller.get(f"{PATH}/hourly/changes"), Page[ChangeView]).items
    assert [(change.action, change.why) for change in changes] == [("updated", "more"), ("created", "asked for")]
    assert msgspec.json.decode(changes[0].after)["max_active"] == 2


@pytest.mark.parametrize(
    ("fields", "where", "why"),
    [
        ({"trigger": {"kind": "cron", "cron": "61 * * * *"}}, "/definition/trigger/cron", "minute: 61 is not from 0"),
        ({"trigger": {"kind": "cron", "cron": "0 0 30 2 *"}}, "/definition/trigger/cron", "never matches"),
        (
            {"trigger": {"kind": "cron", "cron": "0 0 * * *", "timezone": "Mars/Olympus"}},
            "/definition/trigger/timezone",
            "is not an IANA time zone",
        ),
        ({"trigger": {"kind": "hourly"}}, "/definition/trigger/kind", "must be one of cron, interval"),
        ({"trigger": {"kind": "once", "at": "2020-01-01T00:00:00Z"}}, "/definition/trigger/at", "is in the past"),
        ({"job": "nowhere"}, "/definition/job", "there is no job 'nowhere'"),
        ({"priority": 1}, "/definition/priority", "must be one of P0, P1, P2"),
        ({"overlap": "wait"}, "/definition/overlap", "must be one of queue"),
        ({"max_activ": 2}, "/definition/max_activ", "did you mean max_active?"),
        ({"params": [1]}, "/definition/params", "must be an object"),
    ],
)
async def test_a_fault_of_a_definition_is_reported(harness: ApiHarness, fields: Any, where: str, why: str) -> None:
    caller = await _planner(harness)

    body = problem(await caller.post(PATH, json={"definition": {**HOURLY, **fields}}), 422)

    assert pointers(body) == [where]
    assert why in body["errors"][0]["detail"]


async def test_all_faults_of_a_definition_are_reported_together(harness: ApiHarness) -> None:
    caller = await _planner(harness)
    trigger = {"kind": "cron", "cron": "61 25 * * *", "timezone": "Europe/Pariss"}

    body = problem(await caller.post(PATH, json={"definition": {**HOURLY, "trigger": trigger, "max_active": 0}}), 422)

    assert set(pointers(body)) == {
        "/definition/trigger/cron", "/definition/trigger/timezone", "/definition/max_active",
    }  # fmt: skip
    assert len(body["errors"]) >= 4


async def test_a_schedule_is_paused_resumed_and_deleted(harness: ApiHarness) -> None:
    caller = await _planner(harness)
    made = await _create(caller)
    path = f"{PATH}/hourly"

    paused = read(await caller.post(f"{path}/pause", json={"why": "a move"}), ActionResult)
    then = read(await caller.get(path), ScheduleView)
    again = read(await caller.post(f"{path}/pause"), ActionResult)
    resumed = read(await caller.post(f"{path}/resume"), ActionResult)
    deleted = read(await caller.delete(path, params={"why": "no longer"}), ActionResult)

    assert (paused.changed, again.changed, resumed.changed, deleted.changed) == (True, False, True, True)
    assert (then.state, then.next_at) == ("paused", None)
    assert "a move" in then.because
    problem(await caller.get(path), 404)
    problem(await caller.post(f"{path}/pause"), 404)
    assert read(await caller.get(f"{PATH}/{made.id}"), ScheduleView).state == "deleted"
    assert (await caller.post(PATH, json={"definition": HOURLY})).status_code == 201


async def test_a_schedule_is_triggered_manually_and_its_run_records_it(harness: ApiHarness) -> None:
    caller = await _planner(harness)
    made = await _create(caller, params={"region": "eu", "day": 1})

    fire = read(await caller.post(f"{PATH}/hourly/trigger", json={"params": {"day": 2}, "why": "try"}), FireView)

    assert (fire.outcome, fire.by, fire.schedule_id) == ("ran", "token:a-test", made.id)
    run = read(await caller.get(f"/api/v1/runs/{fire.run_id}"), RunView)
    assert (run.schedule_id, run.window_at) == (made.id, fire.window_at)
    assert msgspec.json.decode(run.params) == {"region": "eu", "day": 2}
    (listed,) = read(await caller.get(f"{PATH}/hourly/fires"), Page[FireView]).items
    assert listed.run_id == fire.run_id
    none = read(await caller.get(f"{PATH}/hourly/fires", params={"outcome": "skipped"}), Page[FireView])
    assert none.items == []


async def test_fires_are_paged(harness: ApiHarness) -> None:
    """Several fires have the same window."""
    caller = await _planner(harness)
    await _create(caller)
    window = {"window_at": "2026-01-05T10:00:00Z"}
    made = [
        read(await caller.post(f"{PATH}/hourly/trigger", json=body), FireView).run_id
        for body in (window, window, window, {"window_at": "2026-01-05T09:00:00Z"}, window)
    ]

    pages = [page async for page in all_pages(caller, f"{PATH}/hourly/fires", FireView, limit=2)]

    assert [len(page) for page in pages] == [2, 2, 1]
    bad = await caller.get(f"{PATH}/hourly/fires", params={"cursor": "nowhere"})
    assert pointers(problem(bad, 422)) == ["query:cursor"]
    assert [fire.run_id for page in pages for fire in page] == [made[4], made[2], made[1], made[0], made[3]]


async def test_upcoming_windows_are_merged_by_time(harness: ApiHarness) -> None:
    caller, other = await _planner(harness), await _planner(harness, "globex")
    await _create(caller)
    await _create(caller, name="often", trigger={"kind": "interval", "every_seconds": 1_200})
    await _create(other)

    coming = read(await caller.get("/api/v1/upcoming", params={"limit": 8}), Page[UpcomingView]).items

    assert {one.schedule for one in coming} == {"hourly", "often"}
    assert {one.tenant for one in coming} == {"acme"}
    times = [one.window_at for one in coming]
    assert times == sorted(times)
    assert len(times) == 8
    first = read(await caller.get("/api/v1/upcoming", params={"first_only": True}), Page[UpcomingView]).items
    assert sorted(one.schedule for one in first) == ["hourly", "often"]
    naive = await caller.get("/api/v1/upcoming", params={"until": "2026-11-15T00:00:00"})
    assert pointers(problem(naive, 422)) == ["query:until"]


async def test_schedules_of_other_tenants_answer_like_missing_ones(harness: ApiHarness) -> None:
    acme, globex = await _planner(harness), await _planner(harness, "globex")
    made = await _create(acme)
    never = "sched_000000000000-0000000000000000"

    for path in (
        "GET {}", "DELETE {}", "POST {}/pause", "POST {}/resume", "POST {}/trigger", "GET {}/fires", "GET {}/changes",
        "GET {}/backfills",
    ):  # fmt: skip
        method, _, form = path.partition(" ")
        theirs = problem(await globex.request(method, form.format(f"{PATH}/{made.id}")), 404)
        missing = problem(await globex.request(method, form.format(f"{PATH}/{never}")), 404)
        assert str(theirs).replace(made.id, never) == str(missing), path
        problem(await globex.request(method, form.format(f"{PATH}/hourly")), 404)
    assert read(await globex.get(PATH), Page[ScheduleView]).items == []
    assert read(await acme.get(f"{PATH}/{made.id}"), ScheduleView).state == "active"


async def test_callers_of_all_tenants_name_the_tenant_of_a_schedule(harness: ApiHarness) -> None:
    await _create(await _planner(harness))
    everybody = await harness.admin()

    problem(await everybody.get(f"{PATH}/hourly"), 404)
    assert read(await everybody.get(f"{PATH}/hourly", params={"tenant": "acme"}), ScheduleView).tenant == "acme"
    viewer = harness.caller(await harness.token(Role.VIEWER, tenant="acme"))
    problem(await viewer.post(f"{PATH}/hourly/trigger"), 403)
