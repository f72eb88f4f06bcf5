"""Admission of submissions: P0 grants, pool routing and backpressure (ADM-3, ADM-6, ADM-8)."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from mainspring.core.fairness.pools import Policy, PoolRow
from mainspring.core.fairness.quotas import P0Grant
from mainspring.core.model.resources import Resources
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.protocol.rest.runs import BulkItemResult, RunView
from mainspring.protocol.rest.schedules import FireView, ScheduleView
from tests.api.api_harness import NOOP, ApiHarness, pointers, problem, read, submit
from tests.server_settings import GENEROUS
from tests.store.admin_builders import an_entry

NIGHTLY: dict[str, object] = {"name": "nightly", "job": "noop", "trigger": {"kind": "cron", "cron": "0 3 * * *"}}
EU_JOB: dict[str, object] = {**NOOP, "name": "eu-job", "labels": {"eu_data": "yes"}}
_LAST: dict[str, Any] = {"note": "", "version": 0, "updated_at": EPOCH, "updated_by": "ann"}


@pytest_asyncio.fixture
async def guarded(tmp_path: Path) -> Any:
    """A server on which P0 requires a grant."""
    harness = ApiHarness(tmp_path, given={**GENEROUS, "p0_needs_grant": "1"})
    yield harness
    await harness.close()


async def put_pool(harness: ApiHarness, name: str, most: Resources | None = None, **labels: str) -> None:
    """Configure a pool."""
    row = PoolRow(name=name, labels=json.dumps(labels), zones=(), max_resources=most, **_LAST)
    await harness.store.put_pool(row, None, an_entry())
    await harness.services.rules.refresh()


async def pool_of(harness: ApiHarness, run_id: str) -> str:
    """Return the pool of a run."""
    found = await harness.store.find_run(run_id)
    assert found is not None
    return found.run.shard


async def put_policy(harness: ApiHarness) -> None:
    """Jobs with EU data stay in the EU."""
    row = Policy(name="residency", label="eu_data", value="", requires='{"region": "eu"}', **_LAST)
    await harness.store.put_policy(row, None, an_entry())
    await harness.services.rules.refresh()


async def grant(harness: ApiHarness, tenant: str, life: timedelta | None = None) -> None:
    """Grant a tenant P0."""
    now = await harness.store.time()
    until = None if life is None else now + life
    await harness.store.grant_p0(P0Grant(tenant=tenant, since=now, until=until, by="boss", why="on call"), an_entry())
    await harness.services.rules.refresh()


async def test_p0_needs_a_grant_and_the_error_names_the_command(guarded: ApiHarness) -> None:
    """Grants are per tenant, and an expired one does not count."""
    acme = await guarded.admin("acme")
    await submit(acme)
    body = problem(await acme.post("/api/v1/runs", json={"job": "noop", "priority": "P0"}), 422)
    assert body["errors"][0]["pointer"] == "/priority"
    assert "mainspring tenants grant-p0 acme" in body["errors"][0]["detail"]
    await grant(guarded, "other")
    problem(await acme.post("/api/v1/runs", json={"job": "noop", "priority": "P0"}), 422)
    await grant(guarded, "acme", timedelta(hours=1))
    run = read(await acme.post("/api/v1/runs", json={"job": "noop", "priority": "P0"}), RunView)
    assert run.priority == "P0"
    guarded.clock.ahead += 3_601
    problem(await acme.post("/api/v1/runs", json={"job": "noop", "priority": "P0"}), 422)


async def test_p0_needs_a_grant_on_every_route(guarded: ApiHarness) -> None:
    """Schedules, applied definitions, and priority changes of existing runs."""
    acme = await guarded.admin("acme")
    run = await submit(acme)
    urgent = {**NIGHTLY, "priority": "P0"}
    refused = problem(await acme.post("/api/v1/schedules", json={"definition": urgent}), 422)
    assert pointers(refused) == ["/definition/priority"]
    item = {"job": NOOP, "schedules": [{"definition": urgent}]}
    applied = await acme.post("/api/v1/apply", json={"items": [item]})
    assert "grant-p0 acme" in applied.text
    async with guarded.led():
        changed = await acme.post(f"/api/v1/runs/{run.id}/priority", json={"priority": "p0"})
        assert pointers(problem(changed, 422)) == ["/priority"]
        payload = {"action": "priority", "priority": "p0", "q": "job:noop", "most": 10}
        (line,) = (await acme.post("/api/v1/runs/act", json=payload)).text.splitlines()
        assert "grant-p0 acme" in line


async def test_a_schedule_without_its_grant_is_not_triggered_at_another_priority(guarded: ApiHarness) -> None:
    """And the response has the reason."""
    acme = await guarded.admin("acme")
    await submit(acme)
    await grant(guarded, "acme", timedelta(hours=1))
    made = read(await acme.post("/api/v1/schedules", json={"definition": {**NIGHTLY, "priority": "P0"}}), ScheduleView)
    guarded.clock.ahead += 3_601
    refused = problem(await acme.post(f"/api/v1/schedules/{made.id}/trigger", json={}), 422)
    assert "grant-p0 acme" in refused["errors"][0]["detail"]


async def test_a_labeled_job_goes_to_a_pool_that_qualifies(harness: ApiHarness) -> None:
    """Other jobs use the default pool."""
    acme = await harness.admin("acme")
    await put_pool(harness, "us", region="us")
    await put_pool(harness, "frankfurt", region="eu")
    await put_policy(harness)
    assert await pool_of(harness, (await submit(acme)).id) == "default"
    run = await submit(acme, EU_JOB)
    assert await pool_of(harness, run.id) == "frankfurt"
    again = read(await acme.post(f"/api/v1/runs/{run.id}/rerun", json={}), dict)
    assert await pool_of(harness, again["run_id"]) == "frankfurt"
    schedule = {**NIGHTLY, "job": "eu-job"}
    made = read(await acme.post("/api/v1/schedules", json={"definition": schedule}), ScheduleView)
    assert made.pool == "frankfurt"
    fire = read(await acme.post(f"/api/v1/schedules/{made.id}/trigger", json={}), FireView)
    assert await pool_of(harness, fire.run_id) == "frankfurt"


async def test_without_a_qualifying_pool_everything_is_rejected(harness: ApiHarness) -> None:
    """The error names the policy, its requirements and the existing pools."""
    acme = await harness.admin("acme")
    await submit(acme, EU_JOB)
    made = read(await acme.post("/api/v1/schedules", json={"definition": {**NIGHTLY, "job": "eu-job"}}), ScheduleView)
    await put_pool(harness, "us", region="us")
    await put_policy(harness)
    answers = [
        await acme.post("/api/v1/runs", json={"job": "eu-job"}),
        await acme.post("/api/v1/jobs", json={**EU_JOB, "description": "another"}),
        await acme.post(f"/api/v1/schedules/{made.id}/trigger", json={}),
        await acme.post("/api/v1/schedules", json={"definition": {**NIGHTLY, "name": "n2", "job": "eu-job"}}),
    ]
    for answer in answers:
        (fault,) = problem(answer, 422)["errors"]
        for words in ("policy residency", "eu_data=yes", "region=eu", "us (region=us)"):
            assert words in fault["detail"], answer.url
    lines = (await acme.post("/api/v1/runs/bulk", content='{"job": "eu-job"}\n{"job": "noop2"}\n')).text
    assert "policy residency" in lines.splitlines()[0]
    applied = await acme.post(
        "/api/v1/apply", json={"items": [{"job": {**EU_JOB, "description": "x"}, "schedules": []}]}
    )
    assert "policy residency" in applied.text


async def test_a_job_with_a_pool_runs_there_only(harness: ApiHarness) -> None:
    """An unknown pool is rejected with a suggestion."""
    acme = await harness.admin("acme")
    await put_pool(harness, "frankfurt", region="eu")
    run = await submit(acme, {**NOOP, "name": "far", "pool": "frankfurt"})
    assert await pool_of(harness, run.id) == "frankfurt"
    body = problem(await acme.post("/api/v1/jobs", json={**NOOP, "pool": "frankfrut"}), 422)
    assert body["errors"] == [{"pointer": "/pool", "detail": "unknown pool 'frankfrut', did you mean frankfurt?"}]


async def test_a_task_must_fit_the_maximum_of_its_pool(harness: ApiHarness) -> None:
    """ADM-1: at the submission of the job, and of a run when the pool was described later."""
    acme = await harness.admin("acme")
    large: dict[str, object] = {
        "name": "large",
        "tasks": [{"name": "small"}, {"name": "big", "resources": {"cpu_millis": 64_000}}],
    }
    await submit(acme, large)
    most = Resources(cpu_millis=32_000, memory_bytes=1 << 40, gpus=8, disk_bytes=1 << 40)
    await put_pool(harness, "default", most)
    assert pointers(problem(await acme.post("/api/v1/jobs", json={**large, "description": "x"}), 422)) == [
        "/tasks/1/resources/cpu_millis"
    ]
    body = problem(await acme.post("/api/v1/runs", json={"job": "large"}), 422)
    assert body["errors"][0]["pointer"] == "/job"
    assert "limit is 32 cores" in body["errors"][0]["detail"]


async def test_a_long_backlog_sheds_p2_line_by_line_and_never_p0(tmp_path: Path) -> None:
    """ADM-6: first every second run; each rejection has a retry time."""
    harness = ApiHarness(tmp_path, given={**GENEROUS, "shed_half_p2_at": "2", "shed_p2_at": "1000"})
    acme = await harness.admin("acme")
    await submit(acme)
    await submit(acme)
    async with harness.led():
        pass
    await harness.services.degradation.check_store()
    await submit(acme)
    await submit(acme)
    await harness.services.degradation.count()
    lines = "".join(
        f'{{"job": "noop", "priority": "{priority}"}}\n' for priority in ("P2", "P2", "P0", "P1", "P2", "P2")
    )
    answer = await acme.post("/api/v1/runs/bulk", content=lines)
    ends = [read_line(line) for line in answer.text.splitlines()]
    assert [end.problem is None for end in ends] in (
        [True, False, True, True, True, False],
        [False, True, True, True, False, True],
    )
    for end in ends:
        if end.problem is not None:
            assert (end.problem.status, end.problem.code) == (429, "overloaded")
            assert end.problem.retry_after_seconds == 2.0
    await harness.close()


def read_line(line: str) -> BulkItemResult:
    """Decode a line of a response."""
    return read(httpx2.Response(200, content=line), BulkItemResult)


@pytest.mark.parametrize("pool", ["", "a b", "x" * 200])
async def test_pool_names_are_validated(harness: ApiHarness, pool: str) -> None:
    """Names are required everywhere."""
    acme = await harness.admin("acme")
    assert "/pool" in pointers(problem(await acme.post("/api/v1/jobs", json={**NOOP, "pool": pool}), 422))
