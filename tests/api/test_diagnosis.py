"""Diagnosis over the API: from the leader, or from rows without one; other tenants as counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx2
import pytest

from mainspring.api.auth.principal import Role
from mainspring.app.build import POOL
from mainspring.core.model.run import Run
from mainspring.core.model.task import Task
from mainspring.protocol.rest.diagnosis import DiagnosisView, QueueReasonsView, WhatIfView
from mainspring.protocol.rest.runs import Page, RunView, TaskView
from mainspring.protocol.rest.schedules import ScheduleView
from tests.api.api_harness import NOOP, ApiHarness, pointers, problem, read, submit, until
from tests.host.host_harness import ScriptedWorker

LARGE: dict[str, object] = {
    "name": "large",
    "tasks": [{"name": "only", "resources": {"cpu_millis": 2_000, "memory_bytes": 2**20}}],
}
WITH_GPU: dict[str, object] = {"name": "thumbs", "tasks": [{"name": "only", "labels": {"gpu": "a100"}}]}
HOURLY = {"name": "hourly", "job": "noop", "trigger": {"kind": "cron", "cron": "0 * * * *"}}


async def first_task(caller: httpx2.AsyncClient, run: RunView) -> TaskView:
    """Wait for the task of a run."""
    found: list[TaskView] = []

    async def is_there() -> bool:
        found[:] = read(await caller.get(f"/api/v1/runs/{run.id}/tasks"), Page[TaskView]).items
        return bool(found) and found[0].state == "QUEUED"

    await until(is_there)
    return found[0]


async def why(caller: httpx2.AsyncClient, path: str, **params: str) -> DiagnosisView:
    """Return a diagnosis."""
    found: DiagnosisView = read(await caller.get(f"/api/v1/{path}/diagnosis", params=params), DiagnosisView)
    return found


@asynccontextmanager
async def crowded(harness: ApiHarness) -> AsyncIterator[tuple[TaskView, TaskView]]:
    """A worker whose four cores acme uses; one task of globex and one of acme are queued."""
    acme, globex = await harness.admin("acme"), await harness.admin("globex")
    async with harness.led() as leader:
        hand = await ScriptedWorker("w1", leader, "s1").welcome()
        beating = asyncio.create_task(hand.beat())
        for _ in range(2):
            await submit(acme, LARGE)
            await hand.next_task()
        waiting = [await first_task(caller, await submit(caller, LARGE)) for caller in (globex, acme)]
        yield waiting[0], waiting[1]
        beating.cancel()


async def test_a_task_for_a_missing_gpu_names_it(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    async with harness.led() as leader:
        await ScriptedWorker("w1", leader, "s1").welcome()
        task = await first_task(acme, await submit(acme, WITH_GPU))
        found = await why(acme, f"tasks/{task.id}")

    assert (found.reason, found.by, found.is_problem) == ("NO_MATCHING_WORKER", "leader", True)
    assert "No worker offers gpu=a100" in found.verdict
    assert (found.task_id, found.run_id, found.state, found.priority) == (task.id, task.run_id, "QUEUED", "P2")
    assert [gate.passed for gate in found.gates].count("holding") == 1
    assert found.batch is not None
    assert not found.is_stale


async def test_json_text_and_markdown_have_the_same_verdict(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    async with harness.led() as leader:
        await ScriptedWorker("w1", leader, "s1").welcome()
        run = await submit(acme, WITH_GPU)
        task = await first_task(acme, run)
        url = f"/api/v1/tasks/{task.id}/diagnosis"
        plain = await acme.get(url, headers={"Accept": "text/plain"})
        markdown = await acme.get(url, headers={"Accept": "text/markdown, application/json;q=0.5"})
        named = await acme.get(url, params={"format": "plain"})
        found = await why(acme, f"tasks/{task.id}")
        of_run = await why(acme, f"runs/{run.id}")

    assert plain.headers["content-type"] == "text/plain; charset=utf-8"
    assert markdown.headers["content-type"] == "text/markdown; charset=utf-8"
    assert plain.text.startswith("NO_MATCHING_WORKER  acme/thumbs/only, QUEUED for ")
    assert found.verdict in plain.text
    assert found.verdict in named.text
    assert markdown.text.startswith("**NO\\_MATCHING\\_WORKER**")
    assert (of_run.subject, of_run.task_id, of_run.verdict) == (run.id, task.id, found.verdict)


async def test_other_tenants_are_reduced_to_counts(harness: ApiHarness) -> None:
    async with crowded(harness) as (of_globex, _):
        own = await why(await harness.admin("globex"), f"tasks/{of_globex.id}")
        every = await why(await harness.admin(), f"tasks/{of_globex.id}")
        text = (await (await harness.admin("globex")).get(f"/api/v1/tasks/{of_globex.id}/diagnosis")).text

    others = [one for one in every.blockers if one.tenant == "acme"]
    assert others
    assert "acme" not in text
    assert own.more_blockers == every.more_blockers + len(others)
    assert own.verdict == every.verdict


async def test_a_task_waiting_for_capacity_has_suggestions(harness: ApiHarness) -> None:
    async with crowded(harness) as (_, of_acme):
        caller = await harness.admin("acme")
        found = await why(caller, f"tasks/{of_acme.id}")
        url = f"/api/v1/tasks/{of_acme.id}/what-if"
        more = read(await caller.post(url, json={"changes": ["2 workers 8"]}), WhatIfView)
        less = read(await caller.post(url, json={"changes": ["cpu 1"]}), WhatIfView)
        text = (await caller.post(url, json={"changes": ["2 workers 8"]}, headers={"Accept": "text/plain"})).text

    assert found.reason in {"NO_WORKER_CAPACITY", "FAIR_SHARE"}
    assert found.expected is not None
    assert (more.starts_now, more.preempts, more.holds) == (True, [], "")
    assert more.worker is not None
    assert (less.starts_now, less.worker) == (False, None)
    assert less.holds
    assert less.reason == found.reason
    assert text.startswith(f"starts now on {more.worker}  with: 2 workers 8\n")


async def test_an_invalid_what_if_is_rejected(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    async with harness.led() as leader:
        hand = await ScriptedWorker("w1", leader, "s1").welcome()
        await submit(acme, NOOP)
        running = await hand.next_task()
        url = f"/api/v1/tasks/{running.task}/what-if"
        faulty = problem(await acme.post(url, json={"changes": ["cpu many", "sunshine 3"]}), 422)
        nothing = problem(await acme.post(url, json={"changes": []}), 422)
        started = problem(await acme.post(url, json={"changes": ["cpu 2"]}), 409)

    assert [*pointers(faulty)] == ["/changes", "/changes"]
    assert [*pointers(nothing)] == ["/changes"]
    assert started["code"] == "conflict"


async def test_queued_tasks_are_counted_by_reason_and_tenant(harness: ApiHarness) -> None:
    async with crowded(harness) as (of_globex, of_acme):
        every = read(await (await harness.admin()).get("/api/v1/queue/reasons"), QueueReasonsView)
        own = read(await (await harness.admin("globex")).get("/api/v1/queue/reasons"), QueueReasonsView)
        problem(await (await harness.admin()).get("/api/v1/queue/reasons", params={"pool": "never"}), 404)

    assert every.pool == POOL
    assert sum(one.tasks for one in every.reasons) == 2
    assert {one.example for one in every.reasons} <= {of_globex.id, of_acme.id}
    assert [(one.tasks, one.example) for one in own.reasons] == [(1, of_globex.id)]


@pytest.mark.parametrize(("is_held", "reason"), [(True, "SCHEDULER_LAG"), (False, "UNKNOWN")])
async def test_without_a_leader_rows_are_shown_with_their_age_and_no_suggestions(
    harness: ApiHarness, is_held: bool, reason: str
) -> None:
    acme = await harness.admin("acme")
    async with harness.led() as leader:
        await ScriptedWorker("w1", leader, "s1").welcome()
        run = await submit(acme, WITH_GPU)
        task = await first_task(acme, run)
    if is_held:
        await harness.store.campaign(POOL, "far-away", 7, timedelta(hours=1))

    for path in (f"tasks/{task.id}", f"runs/{run.id}"):
        found = await why(acme, path)
        assert (found.reason, found.by, found.suggestions, found.blockers) == (reason, "rows", [], [])
        assert found.expected is not None
        assert found.expected.kind == "unknown"
        assert "gpu" not in found.verdict
    problem(await acme.post(f"/api/v1/tasks/{task.id}/what-if", json={"changes": ["cpu 1"]}), 503)
    problem(await acme.get("/api/v1/queue/reasons"), 503)


async def test_an_ended_run_explains_its_end(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    async with harness.led() as leader:
        hand = await ScriptedWorker("w1", leader, "s1").welcome()
        run = await submit(acme, NOOP)
        assignment = await hand.next_task()
        await hand.finish(assignment.attempt)
        await until(lambda: _is_over(harness, run.id))
        found = await why(acme, f"runs/{run.id}")
        of_task = await why(acme, f"tasks/{assignment.task}")
        of_job = await why(acme, "jobs/noop")

    assert (found.reason, found.state, found.expected, found.is_problem) == (None, "SUCCEEDED", None, False)
    assert found.verdict.startswith("Succeeded")
    assert (of_task.reason, of_task.state) == (None, "SUCCEEDED")
    assert "on w1" in of_task.verdict
    assert of_job.verdict.startswith("Has no schedule")
    assert run.id in of_job.verdict


async def test_a_run_in_intake_is_diagnosed_from_rows(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    later = (await harness.store.time() + timedelta(hours=1)).isoformat()
    waits = await submit(acme, NOOP, start_at=later)
    now = await submit(acme, NOOP)

    by_time, unled = await why(acme, f"runs/{waits.id}"), await why(acme, f"runs/{now.id}")
    await harness.store.ensure_shard(POOL)
    await harness.store.campaign(POOL, "far-away", 7, timedelta(hours=1))
    in_intake = await why(acme, f"runs/{now.id}")

    assert (by_time.reason, by_time.is_problem) == ("WAITING_TIME", False)
    assert by_time.expected is not None
    assert by_time.expected.earliest == waits.start_at
    assert (unled.reason, unled.suggestions) == ("UNKNOWN", [])
    assert POOL in unled.verdict
    assert (in_intake.reason, in_intake.numbers) == ("PRIORITY_QUEUE_WAIT", {"ahead": 0.0})


async def test_a_schedule_and_its_job_have_the_same_diagnosis(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    await acme.post("/api/v1/jobs", json=NOOP)
    schedule = read(await acme.post("/api/v1/schedules", json={"definition": HOURLY}), ScheduleView)

    planned = await why(acme, "schedules/hourly")
    await acme.post("/api/v1/schedules/hourly/pause", json={"why": "warehouse move"})
    paused, of_job = await why(acme, f"schedules/{schedule.id}"), await why(acme, "jobs/noop")
    everybody = await why(await harness.admin(), "jobs/noop", tenant="acme")

    assert (planned.reason, planned.state, planned.is_problem) == ("WAITING_TIME", "active", False)
    assert (paused.reason, paused.state, paused.is_problem) == ("PAUSED", "paused", True)
    assert "Paused by token:a-test" in paused.verdict
    assert "warehouse move" in paused.verdict
    assert (of_job.verdict.partition(" ago")[2], of_job.reason) == (paused.verdict.partition(" ago")[2], "PAUSED")
    assert everybody.reason == "PAUSED"


async def test_waiting_windows_show_the_blocking_run_and_backfill_progress(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    await acme.post("/api/v1/jobs", json=NOOP)
    read(await acme.post("/api/v1/schedules", json={"definition": HOURLY}), ScheduleView)
    payload = {"since": "2026-01-01T00:00:00Z", "before": "2026-01-01T05:00:00Z", "max_parallel": 2}
    assert (await acme.post("/api/v1/schedules/hourly/backfill", json=payload)).is_success

    found = await why(acme, "schedules/hourly")

    assert found.reason == "BACKFILL_THROTTLED"
    assert (found.numbers["total"], found.numbers["done"], found.numbers["waiting"]) == (5, 0, 3)
    assert [one.kind for one in found.blockers] == ["run", "run"]


async def test_a_stuck_run_takes_precedence_over_the_schedule(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    async with harness.led() as leader:
        await ScriptedWorker("w1", leader, "s1").welcome()
        task = await first_task(acme, await submit(acme, WITH_GPU))
        hourly = {**HOURLY, "job": "thumbs"}
        read(await acme.post("/api/v1/schedules", json={"definition": hourly}), ScheduleView)
        found = await why(acme, "jobs/thumbs")

    assert (found.reason, found.task_id) == ("NO_MATCHING_WORKER", task.id)


async def test_a_what_if_is_charged_as_a_query_and_changes_nothing(harness: ApiHarness) -> None:
    viewer = harness.caller(await harness.token(Role.VIEWER, tenant="acme"))
    async with crowded(harness) as (_, of_acme):
        before: Task | None = await harness.store.find_task(of_acme.id)
        answer = await viewer.post(f"/api/v1/tasks/{of_acme.id}/what-if", json={"changes": ["worker 8"]})
        after: Task | None = await harness.store.find_task(of_acme.id)

    assert answer.status_code == 200
    assert before == after


async def _is_over(harness: ApiHarness, run_id: str) -> bool:
    run: Run | None = await harness.store.run(run_id)
    return run is not None and run.ended_at is not None
