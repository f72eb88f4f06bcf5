"""Applying many jobs with schedules: unchanged definitions stay, and each change is audited."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import httpx2
import msgspec
import pytest

from mainspring.api.auth.principal import Role
from mainspring.api.submission.apply_definitions import MAX_GROUP
from mainspring.core.model.audit_entry import AuditRow
from mainspring.protocol.rest.apply import ApplyItemResult
from mainspring.protocol.rest.runs import JobView
from mainspring.protocol.rest.schedules import ScheduleView
from mainspring.store.ports.admin import AuditFilter
from mainspring.store.ports.schedules import ScheduleFilter
from tests.api.api_harness import ApiHarness, pointers, problem, read

APPLY = "/api/v1/apply"


def an_item(name: str, *, command: str = "true", minute: int = 0, **fields: Any) -> dict[str, Any]:
    """An item with a job of one task."""
    schedule = {"name": f"{name}-daily", "job": name, "trigger": {"kind": "cron", "cron": f"{minute} 5 * * *"}}
    return {
        "job": {"name": name, "tasks": [{"name": "only", "work": {"run": [command]}}]},
        "schedules": [{"definition": schedule}],
        **fields,
    }


async def put(caller: httpx2.AsyncClient, *items: dict[str, Any], **fields: Any) -> list[ApplyItemResult]:
    """Return the result of each item."""
    answer = await caller.post(APPLY, json={"items": items, **fields})
    assert answer.is_success, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [msgspec.json.decode(line, type=ApplyItemResult) for line in answer.content.splitlines()]


async def entries(harness: ApiHarness) -> list[AuditRow]:
    """Return the audit entries, oldest first."""
    return (await harness.store.list_audit(AuditFilter(action="apply"), None, 1_000))[::-1]


def changes(lines: list[ApplyItemResult]) -> list[tuple[str, int, list[str]]]:
    """Return the job change, version and schedule changes of each item."""
    return [(line.change, line.version, [one.change for one in line.schedules]) for line in lines]


def faults(line: ApplyItemResult) -> list[tuple[str, str]]:
    """Return the locations and texts of an item's faults."""
    assert line.problem is not None
    return [(fault.pointer, fault.detail) for fault in line.problem.errors]


async def test_new_definitions_are_created_and_unchanged_ones_kept(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")

    first = await put(caller, an_item("a"), an_item("b"), why="the first of all")
    again = await put(caller, an_item("a"), an_item("b"))
    changed = await put(caller, an_item("a", command="false"), an_item("b", minute=30))

    assert [line.number for line in first] == [0, 1]
    assert changes(first) == [("created", 1, ["created"])] * 2
    assert changes(again) == [("unchanged", 1, ["unchanged"])] * 2
    assert changes(changed) == [("updated", 2, ["unchanged"]), ("unchanged", 1, ["updated"])]
    assert [line.schedules[0].id for line in first] == [line.schedules[0].id for line in changed]
    view = read(await caller.get("/api/v1/schedules/b-daily"), ScheduleView)
    assert (view.version, view.job, "05:30" in view.trigger) == (2, "b", True)


async def test_each_change_has_exactly_one_audit_entry(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    first = await put(caller, an_item("a"), an_item("b"), why="the first of all")
    ids = [line.schedules[0].id for line in first]

    assert sorted(entry.object for entry in await entries(harness)) == sorted(["a", "b", *map(str, ids)])
    await put(caller, an_item("a"), an_item("b"))
    await put(caller, an_item("a", minute=30), an_item("b"), dry_run=True)
    assert len(await entries(harness)) == 4

    await put(caller, an_item("a", command="false"), an_item("b", minute=30), why="later")

    reported = await entries(harness)
    assert [(entry.object, entry.why) for entry in reported[4:]] == [("a", "later"), (ids[1], "later")]
    assert {entry.why for entry in reported[:4]} == {"the first of all"}
    assert len({entry.id for entry in reported}) == 6
    job, schedule = reported[4:]
    assert set(msgspec.json.decode(job.after or "")) == {"tasks", "digest"}
    assert msgspec.json.decode(schedule.before or "")["trigger"]["cron"] == "0 5 * * *"
    assert msgspec.json.decode(schedule.after or "")["trigger"]["cron"] == "30 5 * * *"


async def test_a_dry_run_lists_the_changes_and_writes_nothing(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    await put(caller, an_item("a"))
    payloads = [an_item("a", command="false", minute=30), an_item("b")]

    planned = await put(caller, *payloads, dry_run=True)
    nothing = await harness.store.list_schedules(ScheduleFilter(), 10)
    done = await put(caller, *payloads)

    assert changes(planned) == changes(done) == [("updated", 2, ["updated"]), ("created", 1, ["created"])]
    assert planned[1].schedules[0].id is None
    assert [row.name for row in nothing] == ["a-daily"]


async def test_faults_affect_only_their_own_item(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    wrong = an_item("wrong")
    wrong["job"]["tasks"][0] |= {"name": "no name", "needs": [{"task": "nobody"}]}
    wrong["schedules"][0]["definition"] |= {"trigger": {"kind": "cron", "cron": "61 * * * *"}, "max_active": 0}

    good, bad, last = await put(caller, an_item("good"), wrong, an_item("last"))

    assert (good.problem, last.problem) == (None, None)
    assert (bad.job, bad.change, bad.schedules) == ("wrong", "", [])
    assert [where for where, _ in faults(bad)] == [
        "/job/tasks/0/name",
        "/job/tasks/0/needs/0/task",
        "/schedules/0/definition/trigger/cron",
        "/schedules/0/definition/max_active",
    ]
    assert bad.problem is not None
    assert (bad.problem.status, bad.problem.detail) == (422, "the item has 4 faults")
    problem(await caller.get("/api/v1/jobs/wrong"), 404)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"job": "other"}, "/schedules/0/definition/job"),
        ({"nmae": "typing"}, "/schedules/0/definition/nmae"),
        ({"trigger": {"kind": "sometimes"}}, "/schedules/0/definition/trigger/kind"),
    ],
)
async def test_a_job_is_not_stored_if_its_schedule_is_invalid(
    harness: ApiHarness, change: dict[str, object], where: str
) -> None:
    caller = await harness.admin("acme")
    item = an_item("a")
    item["schedules"][0]["definition"] |= change

    (line,) = await put(caller, item)

    assert [place for place, _ in faults(line)] == [where]
    problem(await caller.get("/api/v1/jobs/a"), 404)


async def test_an_item_that_is_not_a_job_is_rejected_with_its_location(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")

    number, empty, twice = await put(
        caller, {"job": 3}, {"job": {}}, {**an_item("a"), "schedules": an_item("a")["schedules"] * 2}
    )

    assert (number.job, [where for where, _ in faults(number)]) == ("", ["/job"])
    assert [where for where, _ in faults(empty)] == ["/job/name", "/job/tasks"]
    assert faults(twice) == [("/schedules/1/definition/name", "is a duplicate")]


async def test_items_with_the_same_name_are_applied_in_order(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")

    lines = await put(caller, an_item("a"), an_item("a", command="false"), an_item("a", command="false"))

    assert changes(lines) == [
        ("created", 1, ["created"]),
        ("updated", 2, ["unchanged"]),
        ("unchanged", 2, ["unchanged"]),
    ]


async def test_a_schedule_moves_to_another_job(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    await put(caller, an_item("before"))
    moved = an_item("after")
    moved["schedules"][0]["definition"]["name"] = "before-daily"

    (line,) = await put(caller, moved)

    assert changes([line]) == [("created", 1, ["updated"])]
    assert read(await caller.get("/api/v1/schedules/before-daily"), ScheduleView).job == "after"


async def test_a_deleted_job_is_restored(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    item = {**an_item("a"), "schedules": []}
    await put(caller, item)
    read(await caller.delete("/api/v1/jobs/a"), dict)

    planned = await put(caller, item, dry_run=True)
    done = await put(caller, item)

    assert changes(planned) == changes(done) == [("created", 1, [])]
    assert read(await caller.get("/api/v1/jobs/a"), JobView).version == 1


async def test_since_applies_to_new_schedules_only(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    now = await harness.store.time()
    since = now - timedelta(days=3)
    item = an_item("a")
    item["schedules"][0]["since"] = since.isoformat()

    (made,) = await put(caller, item)
    after = read(await caller.get("/api/v1/schedules/a-daily"), ScheduleView)
    (again,) = await put(caller, item)
    other = an_item("b")
    other["schedules"][0]["since"] = item["schedules"][0]["since"] = (now + timedelta(days=3)).isoformat()
    ignored, ahead = await put(caller, item, other)

    assert after.planned_through == since
    assert after.next_at is not None
    assert since < after.next_at < now
    assert [line.schedules[0].change for line in (made, again, ignored)] == ["created", "unchanged", "unchanged"]
    assert [where for where, _ in faults(ahead)] == ["/schedules/0/since"]


async def test_a_new_schedule_may_start_paused_and_an_existing_one_is_not_paused(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    item, other = an_item("a"), an_item("b")
    await put(caller, other)
    item["schedules"][0]["paused"] = other["schedules"][0]["paused"] = True

    await put(caller, item, other)
    begun = read(await caller.get("/api/v1/schedules/a-daily"), ScheduleView)
    there = read(await caller.get("/api/v1/schedules/b-daily"), ScheduleView)

    assert (begun.state, begun.next_at) == ("paused", None)
    assert begun.because.startswith("paused by ")
    assert there.state == "active"
    await caller.post("/api/v1/schedules/a-daily/resume")
    assert read(await caller.get("/api/v1/schedules/a-daily"), ScheduleView).next_at is not None


async def test_an_unchanged_definition_is_not_validated_again(harness: ApiHarness) -> None:
    """A time that was in the future when it was applied has passed since."""
    caller = await harness.admin("acme")
    at = await harness.store.time() + timedelta(minutes=1)
    item = an_item("a")
    item["schedules"][0]["definition"]["trigger"] = {"kind": "once", "at": at.isoformat()}

    (made,) = await put(caller, item)
    harness.clock.ahead += 3_600
    (again,) = await put(caller, item)
    item["schedules"][0]["definition"]["max_active"] = 2
    (changed,) = await put(caller, {**item, "job": an_item("a", command="false")["job"]})

    assert changes([made, again]) == [("created", 1, ["created"]), ("unchanged", 1, ["unchanged"])]
    assert [where for where, _ in faults(changed)] == ["/schedules/0/definition/trigger/at"]
    assert read(await caller.get("/api/v1/jobs/a"), JobView).version == 1


async def test_an_item_of_another_tenant_gets_a_problem(harness: ApiHarness) -> None:
    caller = harness.caller(await harness.token(Role.SUBMITTER, tenant="acme"))

    lines = await put(caller, an_item("a"), an_item("a", tenant="globex"), an_item("b"))

    assert [line.problem.code if line.problem else None for line in lines] == [None, "forbidden", None]
    assert await harness.store.find_job("globex", "a") is None


async def test_results_of_several_groups_keep_their_order(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    items = [an_item(f"j{number}") for number in range(MAX_GROUP + 10)]
    items[3]["job"]["tasks"] = []

    lines = await put(caller, *items)

    assert [line.job for line in lines] == [f"j{number}" for number in range(MAX_GROUP + 10)]
    assert [line.number for line in lines if line.problem] == [3]


async def test_a_concurrently_taken_name_conflicts_only_its_own_item(harness: ApiHarness) -> None:
    """Two concurrent requests for the same new definitions: whatever the responses, each is stored once."""
    caller = await harness.admin("acme")
    payloads = [an_item(f"j{number}") for number in range(20)]

    both = await asyncio.gather(put(caller, *payloads), put(caller, *payloads))

    rows = await harness.store.list_schedules(ScheduleFilter(), 100)
    assert sorted(row.name for row in rows) == sorted(f"j{number}-daily" for number in range(20))
    for line in [line for lines in both for line in lines]:
        assert line.version == 1
        assert line.problem is None or line.problem.code == "conflict"


async def test_an_invalid_body_is_rejected_as_a_whole(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")

    many = problem(await caller.post(APPLY, json={"items": [{"job": {}}] * 1_001}), 422)
    unknown = problem(await caller.post(APPLY, json={"items": [], "dryrun": True}), 422)

    assert list(pointers(many)) == ["/items"]
    assert list(pointers(unknown)) == ["/dryrun"]
    assert await entries(harness) == []
