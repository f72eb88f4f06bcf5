"""Workers in any language: claim, start, heartbeat, complete, fail (WRK-2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest

from mainspring.api.auth.principal import Role
from mainspring.api.auth.tokens import make_attempt_token
from mainspring.api.routes.workers.claims import MAX_RESULT_BYTES
from mainspring.core.model.task import AttemptEnd, TaskState
from mainspring.protocol.rest.runs import RunView
from tests.api.api_harness import SECRET, ApiHarness, pointers, problem, read, submit, until

CLAIM = "/api/v1/scheduler/claim-runs"
STEP: dict[str, object] = {"name": "claimed", "tasks": [{"name": "step", "max_attempts": 3}]}


def of(run: str, call: str) -> str:
    """Return a path of a claimed run."""
    return f"/api/v1/pipeline-runs/{run}/{call}"


async def worker(harness: ApiHarness) -> httpx2.AsyncClient:
    """Return a client with the role worker."""
    return harness.caller(await harness.token(Role.WORKER))


async def claim(caller: httpx2.AsyncClient, name: str = "hands", **fields: object) -> list[dict[str, Any]]:
    """Claim runs for a worker."""
    answer = await caller.post(CLAIM, json={"worker_id": name, "wait_seconds": 10, **fields})
    assert answer.status_code == 200, answer.text
    runs: list[dict[str, Any]] = answer.json()["claimed_runs"]
    return runs


async def started(caller: httpx2.AsyncClient) -> str:
    """Claim and start a run."""
    (run,) = await claim(caller)
    answer = await caller.post(of(run["run_id"], "start"), json={"worker_id": "hands"})
    assert answer.json() == {"run_id": run["run_id"], "status": "RUNNING"}, answer.text
    return str(run["run_id"])


async def test_work_is_claimed_started_and_completed(harness: ApiHarness) -> None:
    admin, hands = await harness.admin("acme"), await worker(harness)
    async with harness.led():
        made = await submit(admin, STEP, params={"day": "friday"})
        (run,) = await claim(hands, max_claims=10, claim_duration_seconds=60)
        begun = await hands.post(
            of(run["run_id"], "start"), json={"worker_id": "hands", "execution_context": {"pod": 1}}
        )
        beat = await hands.post(
            of(run["run_id"], "heartbeat"),
            json={
                "current_stage": "transforming", "progress_percentage": 45.5, "records_processed": 1_250_000,
                "estimated_completion_time": "2025-11-17T02:35:00Z", "checkpoint": {"row": 7}, "log": "half\n",
            },
        )  # fmt: skip
        done = await hands.post(of(run["run_id"], "complete"), json={"result_summary": {"records": 2}})
        again = await hands.post(of(run["run_id"], "complete"), json={"result_summary": {"records": 2}})
        task = await harness.store.find_task(run["task_id"])
        saved = await harness.store.checkpoint(run["task_id"])
        log = await harness.services.logs.read(run["run_id"], 0, 1_000)
        run_view = read(await admin.get(f"/api/v1/runs/{made.id}"), RunView)

    assert (run["run"], run["task"], run["attempt"], run["customer_id"]) == (made.id, "step", 1, "acme")
    assert (run["parent_run_id"], run["params"], run["checkpoint"]) == (None, {"day": "friday"}, None)
    assert begun.json()["status"] == "RUNNING"
    assert beat.json()["stop"] is False
    assert done.json() == again.json() == {"run_id": run["run_id"], "status": "SUCCESS"}
    assert task is not None
    assert (task.state, task.output) == (TaskState.SUCCEEDED, '{"records":2}')
    assert task.ran_on is not None
    assert task.ran_on.startswith("http/token:a-test/")
    assert saved is not None
    assert saved.document == '{"row":7}'
    assert log.data == f'started by {task.ran_on}: {{"pod":1}}\nhalf\n'.encode()
    assert run_view.state == "SUCCEEDED"


async def test_a_claim_waits_for_work_up_to_its_limit(harness: ApiHarness) -> None:
    admin, hands = await harness.admin("acme"), await worker(harness)
    async with harness.led():
        nothing = await claim(hands, wait_seconds=0)
        waiting = asyncio.create_task(claim(hands, wait_seconds=30))
        await submit(admin, STEP)
        (run,) = await waiting

    assert nothing == []
    assert run["task"] == "step"


async def test_each_claim_gets_different_tasks_up_to_its_maximum(harness: ApiHarness) -> None:
    admin, hands = await harness.admin("acme"), await worker(harness)
    wide: dict[str, object] = {"name": "wide", "tasks": [{"name": f"t{number}"} for number in range(7)]}
    async with harness.led():
        await submit(admin, wide)
        await until(lambda: _queued(harness, 7))
        first = await claim(hands, max_claims=5)
        second = await claim(hands, max_claims=5)
        third = await claim(hands, max_claims=5, wait_seconds=0)

    names = [run["task"] for run in [*first, *second, *third]]
    assert (len(first), len(second), len(third)) == (5, 2, 0)
    assert sorted(names) == [f"t{number}" for number in range(7)]


async def _queued(harness: ApiHarness, count: int) -> bool:
    leader = harness.engine.host.leaders["default"]
    return sum(leader.shard.memory.queues.depth.values()) == count


async def test_an_unstarted_claim_expires_and_its_task_gets_another_id(harness: ApiHarness) -> None:
    admin, hands = await harness.admin("acme"), await worker(harness)
    async with harness.led():
        await submit(admin, STEP)
        (run,) = await claim(hands, claim_duration_seconds=1)
        (next_run,) = await claim(hands, "others", claim_duration_seconds=60)
        late = await hands.post(of(run["run_id"], "start"), json={"worker_id": "hands"})
        foreign = await hands.post(of(next_run["run_id"], "start"), json={"worker_id": "hands"})
        mine = await hands.post(of(next_run["run_id"], "start"), json={"worker_id": "others"})
        result = await hands.post(of(run["run_id"], "complete"), json={"result_summary": 1})
        task = await harness.store.find_task(run["task_id"])

    assert next_run["run_id"] != run["run_id"]
    assert next_run["task_id"] == run["task_id"]
    assert (next_run["parent_run_id"], next_run["attempt"]) == (run["run_id"], 2)
    assert problem(late, 409)["code"] == problem(result, 409)["code"] == "claim_expired"
    assert problem(foreign, 409)["code"] == "wrong_worker"
    assert mine.is_success
    assert task is not None
    assert (task.state, task.output, task.attempt_id) == (TaskState.RUNNING, None, next_run["run_id"])


async def test_a_failure_is_retried_unless_permanent(harness: ApiHarness) -> None:
    admin, hands = await harness.admin("acme"), await worker(harness)
    error = {"error_type": "SERVICE_UNAVAILABLE", "error_details": {"message": "busy", "provider_error_code": "503"}}
    async with harness.led():
        await submit(admin, {**STEP, "retry": {"classes": {"transient": {"base_seconds": 0}}}})
        first = await started(hands)
        failed = await hands.post(of(first, "fail"), json=error)
        again = await hands.post(of(first, "fail"), json=error)
        contrary = await hands.post(of(first, "complete"), json={})
        (second,) = await claim(hands)
        last = await hands.post(of(second["run_id"], "fail"), json={**error, "should_retry": False})
        task = await harness.store.find_task(second["task_id"])
        attempts = await harness.store.attempts_of(second["task_id"])

    assert failed.json() == again.json() == {"run_id": first, "status": "FAILED"}
    assert problem(contrary, 409)["code"] == "attempt_over"
    assert second["parent_run_id"] == first
    assert last.is_success
    assert task is not None
    assert task.state is TaskState.FAILED
    assert [attempt.end for attempt in attempts] == [AttemptEnd.FAILED, AttemptEnd.FAILED]
    assert '"provider_error_code":"503"' in (task.error or "")


async def test_a_stop_is_delivered_with_the_next_heartbeat(harness: ApiHarness) -> None:
    admin, hands = await harness.admin("acme"), await worker(harness)
    async with harness.led():
        made = await submit(admin, STEP)
        run = await started(hands)
        await admin.post(f"/api/v1/runs/{made.id}/cancel", json={"why": "no longer needed"})
        beat = (await hands.post(of(run, "heartbeat"), json={})).json()
        stopped = await hands.post(of(run, "fail"), json={"error_type": "STOPPED"})
        after = await hands.post(of(run, "heartbeat"), json={})
        view = read(await admin.get(f"/api/v1/runs/{made.id}"), RunView)

    assert beat["stop"] is True
    assert "no longer needed" in beat["why"]
    assert 0 < beat["grace_seconds"] <= 30
    assert stopped.is_success
    assert problem(after, 409)["code"] == "attempt_over"
    assert view.state == "CANCELLED"


async def test_a_cancelled_claim_ends_immediately(harness: ApiHarness) -> None:
    admin, hands = await harness.admin("acme"), await worker(harness)
    async with harness.led():
        made = await submit(admin, STEP)
        (run,) = await claim(hands)
        await admin.post(f"/api/v1/runs/{made.id}/cancel", json={})
        begun = await hands.post(of(run["run_id"], "start"), json={"worker_id": "hands"})
        view = read(await admin.get(f"/api/v1/runs/{made.id}"), RunView)

    assert problem(begun, 409)["code"] == "claim_expired"
    assert view.state == "CANCELLED"


async def test_an_attempt_can_be_reported_by_its_own_worker_only(harness: ApiHarness) -> None:
    """Another token, a task's own token, an unknown id."""
    admin, hands = await harness.admin("acme"), await worker(harness)
    async with harness.led():
        await submit(admin, STEP)
        run = await started(hands)
        own = harness.caller(make_attempt_token(SECRET, run, await _tomorrow(harness)))
        thief = harness.caller(await _named(harness, "thief"))
        calls = {"start": {"worker_id": "hands"}, "heartbeat": {}, "complete": {}, "fail": {}}
        answers = [await thief.post(of(run, call), json=body) for call, body in calls.items()]
        claims = await own.post(CLAIM, json={"worker_id": "hands"})
        unknown = await hands.post(of("att_000000000000-0000000000000000", "complete"), json={})
        task = await harness.store.find_task((await harness.store.find_attempts([run]))[0].task_id)

    assert [problem(answer, 409)["code"] for answer in answers] == ["wrong_worker"] * 4
    problem(claims, 403)
    problem(unknown, 404)
    assert task is not None
    assert task.state is TaskState.RUNNING


async def _named(harness: ApiHarness, name: str) -> str:
    admin = await harness.admin()
    answer = await admin.post("/api/v1/tokens", json={"name": name, "roles": ["worker"], "tenant": "*"})
    assert answer.is_success, answer.text
    return str(answer.json()["token"])


async def _tomorrow(harness: ApiHarness) -> datetime:
    return await harness.store.time() + timedelta(days=1)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/worker_id"),
        ({"worker_id": "a/b"}, "/worker_id"),
        ({"worker_id": "w", "max_claims": 101}, "/max_claims"),
        ({"worker_id": "w", "max_claims": 0}, "/max_claims"),
        ({"worker_id": "w", "wait_seconds": 31}, "/wait_seconds"),
        ({"worker_id": "w", "claim_duration_seconds": 0}, "/claim_duration_seconds"),
        ({"worker_id": "w", "labels": {"a": "b" * 201}}, "/labels/..."),
        ({"worker_id": "w", "zone": "a\nb"}, "/zone"),
        ({"worker_id": "w", "resources": {"cpu": -1}}, "/resources/cpu"),
    ],
)
async def test_an_invalid_claim_is_rejected(harness: ApiHarness, body: dict[str, object], pointer: str) -> None:
    hands = await worker(harness)
    assert list(pointers(problem(await hands.post(CLAIM, json=body), 422))) == [pointer]


async def test_an_oversized_body_is_rejected_and_changes_nothing(harness: ApiHarness) -> None:
    admin, hands = await harness.admin("acme"), await worker(harness)
    async with harness.led():
        await submit(admin, STEP)
        run = await started(hands)
        large = await hands.post(of(run, "complete"), json={"result_summary": "x" * MAX_RESULT_BYTES})
        huge = await hands.post(of(run, "complete"), content=_endless(), headers={"content-type": "application/json"})
        checkpoint = await hands.post(of(run, "heartbeat"), json={"checkpoint": "x" * 300_000})
        nul = await hands.post(of(run, "complete"), json={"result_summary": "a\0b"})
        attempt = (await harness.store.find_attempts([run]))[0]

    assert list(pointers(problem(large, 422))) == ["/result_summary"]
    problem(huge, 413)
    assert list(pointers(problem(checkpoint, 422))) == ["/checkpoint"]
    assert list(pointers(problem(nul, 422))) == ["/result_summary"]
    assert attempt.end is None


async def _endless() -> AsyncIterator[bytes]:
    """An endless body."""
    while True:
        yield b"x" * 65_536


async def test_a_worker_gets_tasks_that_fit_its_capacity_and_labels(harness: ApiHarness) -> None:
    admin, hands = await harness.admin("acme"), await worker(harness)
    picky: dict[str, object] = {
        "name": "picky",
        "tasks": [
            {"name": "big", "resources": {"cpu_millis": 16000, "memory_bytes": 1024}},
            {"name": "marked", "labels": {"disk": "ssd"}},
            {"name": "plain"},
        ],
    }
    async with harness.led():
        await submit(admin, picky)
        await until(lambda: _queued(harness, 3))
        usual = await claim(hands, max_claims=3)
        marked = await claim(hands, max_claims=3, labels={"disk": "ssd"})
        large = await claim(hands, max_claims=3, resources={"cpu": 18, "memory": 2**34})
        pool = await hands.post(CLAIM, json={"worker_id": "hands", "pool": "never"})

    assert [run["task"] for run in usual] == ["plain"]
    assert [run["task"] for run in marked] == ["marked"]
    assert [run["task"] for run in large] == ["big"]
    assert problem(pool, 503)["code"] == "not_leading"


async def test_a_disconnected_client_gets_no_work(harness: ApiHarness) -> None:
    """A disconnected client is not given work that another could have."""
    admin, hands = await harness.admin("acme"), await worker(harness)
    async with harness.led() as leader:
        waiting = asyncio.create_task(claim(hands, "gone", wait_seconds=30))
        await until(lambda: _open_claims(leader, 1))
        waiting.cancel()
        await until(lambda: _open_claims(leader, 0))
        await submit(admin, STEP)
        (run,) = await claim(hands, "here")

    assert run["attempt"] == 1


async def _open_claims(leader: Any, count: int) -> bool:
    return len(leader.shard.memory.claims.open) == count
