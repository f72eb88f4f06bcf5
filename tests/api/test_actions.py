"""Actions are executed by the leader, and the response has their result."""

from __future__ import annotations

from mainspring.protocol.rest.runs import ActionResult, RunView, TaskView, WorkerView
from mainspring.protocol.wire import Stop
from tests.api.api_harness import ApiHarness, pointers, problem, read, running_task, submit

WHY = {"why": "the numbers look wrong"}


async def test_a_run_is_paused_resumed_and_cancelled(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led():
        run = await submit(caller)
        path = f"/api/v1/runs/{run.id}"

        paused = read(await caller.post(f"{path}/pause", json=WHY), ActionResult)
        then = read(await caller.get(path), RunView)
        again = read(await caller.post(f"{path}/pause"), ActionResult)
        resumed = read(await caller.post(f"{path}/resume", json=WHY), ActionResult)
        cancelled = read(await caller.post(f"{path}/cancel", json=WHY), ActionResult)
        ended = read(await caller.get(path), RunView)

    assert (paused.changed, then.paused) == (True, True)
    assert again.changed is False
    assert (resumed.changed, cancelled.changed) == (True, True)
    assert (ended.cancelled_by, ended.because) == ("token:a-test", WHY["why"])


async def test_a_task_is_cancelled_and_retried(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        hand, task = await running_task(harness, caller, leader)
        path = f"/api/v1/tasks/{task.id}"

        too_early = await caller.post(f"{path}/retry")
        not_quarantined = await caller.post(f"{path}/clear")
        assert task.attempt_id is not None
        await hand.finish(task.attempt_id)
        too_late = read(await caller.post(f"{path}/cancel"), ActionResult)
        retried = read(await caller.post(f"{path}/retry", json=WHY), ActionResult)
        again = read(await caller.get(path), TaskView)

    assert "the task is RUNNING" in problem(too_early, 409)["detail"]
    assert problem(not_quarantined, 409)["code"] == "conflict"
    assert too_late.changed is False
    assert (retried.changed, again.generation) == (True, 2)


async def test_a_task_is_killed_and_runs_again(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        hand, task = await running_task(harness, caller, leader)
        path = f"/api/v1/tasks/{task.id}/kill"

        too_long = await caller.post(path, json={"grace_seconds": 3_601})
        negative = await caller.post(path, json={"grace_seconds": -1})
        killed = read(await caller.post(path, json={"grace_seconds": 5, "again": True, **WHY}), ActionResult)
        stop = await hand.expect(Stop)
        asked = read(await caller.get(f"/api/v1/tasks/{task.id}"), TaskView)

    assert pointers(problem(too_long, 422)) == pointers(problem(negative, 422)) == ["/grace_seconds"]
    assert (killed.changed, stop.attempt) == (True, task.attempt_id)
    assert asked.stop is not None
    assert (asked.stop.kind, asked.stop.why) == ("evict", WHY["why"])


async def test_a_run_gets_another_priority(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        _, task = await running_task(harness, caller, leader)
        path = f"/api/v1/runs/{task.run_id}"

        changed = read(await caller.post(f"{path}/priority", json={"priority": "p0", **WHY}), ActionResult)
        again = read(await caller.post(f"{path}/priority", json={"priority": "P0"}), ActionResult)
        unknown = await caller.post(f"{path}/priority", json={"priority": "P9"})
        run = read(await caller.get(path), RunView)

    assert (changed.changed, again.changed, run.priority) == (True, False, "P0")
    assert pointers(problem(unknown, 422)) == ["/priority"]


async def test_a_worker_is_cordoned_and_uncordoned(harness: ApiHarness) -> None:
    caller = await harness.admin()
    async with harness.led() as leader:
        await running_task(harness, caller, leader)

        cordoned = read(await caller.post("/api/v1/workers/w1/cordon", json=WHY), ActionResult)
        then = read(await caller.get("/api/v1/workers/w1"), WorkerView)
        drained = read(await caller.post("/api/v1/workers/w1/drain", json=WHY), ActionResult)
        freed = read(await caller.post("/api/v1/workers/w1/uncordon"), ActionResult)
        afterwards = read(await caller.get("/api/v1/workers/w1"), WorkerView)
        missing = await caller.post("/api/v1/workers/w2/drain")

    assert (cordoned.changed, then.hold, then.status, then.running) == (True, "cordoned", "ready", 1)
    assert WHY["why"] in then.hold_why
    assert (drained.changed, freed.changed, afterwards.hold) == (True, True, "")
    assert (afterwards.cpu_millis, afterwards.pool) == (4_000, "default")
    problem(missing, 404)


async def test_reasons_are_limited_and_unknown_body_fields_rejected(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    run = await submit(caller)

    long = await caller.post(f"/api/v1/runs/{run.id}/cancel", json={"why": "x" * 1_001})
    unknown = await caller.post(f"/api/v1/runs/{run.id}/cancel", json={"reason": "x"})

    assert pointers(problem(long, 422)) == ["/why"]
    assert pointers(problem(unknown, 422)) == ["/reason"]


async def test_without_a_leader_an_action_is_to_be_retried(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    await harness.store.ensure_shard("default")
    run = await submit(caller)

    answer = await caller.post(f"/api/v1/runs/{run.id}/cancel")

    assert problem(answer, 503)["code"] == "not_leading"
    assert int(answer.headers["retry-after"]) >= 1
