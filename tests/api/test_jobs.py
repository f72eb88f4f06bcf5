"""Jobs: versions, labels, deletion, and trends."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mainspring.api.submission.job_cache import EXISTS_SECONDS
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.protocol.rest.overviews import TrendView
from mainspring.protocol.rest.runs import JobView, Page
from tests.api.api_harness import NOOP, ApiHarness, all_pages, pointers, problem, read, running_task, submit


async def test_versions_of_a_job_are_listed_latest_first(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    for retries in range(5):
        await caller.post("/api/v1/jobs", json={**NOOP, "max_retries": retries})

    pages = [page async for page in all_pages(caller, "/api/v1/jobs/noop/versions", JobView, limit=2)]

    assert [[job.version for job in page] for page in pages] == [[5, 4], [3, 2], [1]]
    assert {job.created_by for page in pages for job in page} == {"token:a-test"}
    problem(await caller.get("/api/v1/jobs/another/versions"), 404)
    problem(await caller.get("/api/v1/jobs/noop/versions?cursor=WyJ4Il0"), 422)


async def test_a_job_has_labels_and_a_description(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    about = {"labels": {"team": "ml", "cost/center": "Ölraum 7"}, "description": "Loads orders.\n" * 200}

    made = read(await caller.post("/api/v1/jobs", json={**NOOP, **about}), JobView)
    shown = (await caller.get("/api/v1/jobs/noop")).json()

    assert made.labels == shown["labels"] == about["labels"]
    assert shown["definition"]["description"] == about["description"]
    assert shown["created_at"] is not None


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ({"labels": {f"l{number}": "x" for number in range(33)}}, "/labels"),
        ({"labels": {"a b": "x"}}, "/labels"),
        ({"labels": {"x" * 64: "x"}}, "/labels"),
        ({"labels": {"team": "x" * 64}}, "/labels/team"),
        ({"labels": {"team": ""}}, "/labels/team"),
        ({"labels": {"team": 7}}, "/labels"),
        ({"description": "x" * 4_001}, "/description"),
    ],
)
async def test_labels_of_a_job_are_limited(harness: ApiHarness, about: dict[str, object], expected: str) -> None:
    caller = await harness.admin("acme")

    (pointer,) = pointers(problem(await caller.post("/api/v1/jobs", json={**NOOP, **about}), 422))

    assert pointer.startswith(expected)


async def test_a_deleted_job_gets_no_runs(harness: ApiHarness) -> None:
    """By name, by version and by id, until the job is submitted again."""
    caller = await harness.admin("acme")
    run = await submit(caller)
    missing = problem(await caller.post("/api/v1/runs", json={"job": "missing"}), 422)

    assert (await caller.delete("/api/v1/jobs/noop?why=old")).json() == {"changed": True, "detail": ""}

    refused = problem(await caller.post("/api/v1/runs", json={"job": "noop"}), 422)
    assert refused["errors"][0]["detail"] == missing["errors"][0]["detail"].replace("missing", "noop")
    for reference in ("noop@1", run.job_id):
        problem(await caller.post("/api/v1/runs", json={"job": reference}), 422)
    assert read(await caller.get("/api/v1/jobs"), Page[JobView]).items == []
    assert (await caller.get("/api/v1/jobs/noop")).json()["deleted_at"] is not None
    problem(await caller.delete("/api/v1/jobs/noop"), 404)

    await submit(caller)
    assert [job.name for job in read(await caller.get("/api/v1/jobs"), Page[JobView]).items] == ["noop"]


async def test_another_server_notices_a_deleted_job_within_seconds(harness: ApiHarness) -> None:
    """The other server has cached the job, and is not notified."""
    caller = await harness.admin("acme")
    run = await submit(caller)
    jobs = harness.services.submissions.jobs
    before = await jobs.find("acme", run.job_id)

    entry = AuditEntry(id="req_1", tenant="acme", actor="a test", source="", action="delete_job", object="noop")
    await harness.store.delete_job("acme", "noop", entry)

    assert await jobs.find("acme", run.job_id) == before is not None
    harness.clock.ahead += EXISTS_SECONDS
    assert [await jobs.find("acme", reference) for reference in (run.job_id, "noop", "noop@1")] == [None] * 3


async def test_a_job_with_a_schedule_is_not_deleted(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    await submit(caller)
    definition = {"name": "nightly", "job": "noop", "trigger": {"kind": "interval", "every_seconds": 3600}}
    made = await caller.post("/api/v1/schedules", json={"definition": definition})
    assert made.is_success, made.text

    refused = problem(await caller.delete("/api/v1/jobs/noop"), 409)

    assert "nightly" in refused["detail"]
    assert (await caller.post("/api/v1/runs", json={"job": "noop"})).status_code == 201


async def test_a_job_change_requires_its_latest_version(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    first = await caller.post("/api/v1/jobs", json=NOOP)
    seen = (await caller.get("/api/v1/jobs/noop")).headers["etag"]
    assert first.headers["etag"] == seen

    second = await caller.post("/api/v1/jobs", json={**NOOP, "max_retries": 1}, headers={"If-Match": seen})
    late = await caller.post("/api/v1/jobs", json={**NOOP, "max_retries": 2}, headers={"If-Match": seen})

    assert second.json()["version"] == 2
    assert problem(late, 412)["code"] == "outdated"
    problem(await caller.delete("/api/v1/jobs/noop", headers={"If-Match": seen}), 412)
    again = await caller.get("/api/v1/jobs/noop", headers={"If-None-Match": second.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_a_trend_has_every_day_and_a_total(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        hand, task = await running_task(harness, caller, leader)
        assert task.attempt_id is not None
        await hand.finish(task.attempt_id)
        trend = read(await caller.get("/api/v1/jobs/noop/trend?days=7"), TrendView)

    today = trend.days[-1]
    assert [day.day - trend.days[0].day for day in trend.days] == [timedelta(days=number) for number in range(7)]
    assert (today.runs, today.states, trend.total.runs) == (1, {"SUCCEEDED": 1}, 1)
    assert today.duration_p50_seconds == trend.total.duration_p95_seconds is not None
    assert [day.duration_p50_seconds for day in trend.days[:-1]] == [None] * 6
    problem(await caller.get("/api/v1/jobs/noop/trend?days=0"), 422)
    problem(await caller.get("/api/v1/jobs/another/trend"), 404)
