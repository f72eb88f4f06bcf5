"""A restored store has lost a job that the server has cached: no run of it is created."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from mainspring.protocol.rest.runs import JobView, RunView
from tests.api.api_harness import NOOP, ApiHarness, problem, read
from tests.api.test_submission import bulk


@pytest.fixture
def forgetful(harness: ApiHarness) -> Callable[[], None]:
    """Delete the latest job from the store, while the server has it cached."""

    def lose() -> None:
        harness.store._writer.execute("DELETE FROM jobs WHERE version = (SELECT max(version) FROM jobs)")

    return lose


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_run_resolves_its_job_name_again(
    harness: ApiHarness, forgetful: Callable[[], None], key: str | None
) -> None:
    caller = await harness.admin("acme")
    await caller.post("/api/v1/jobs", json=NOOP)
    await caller.post("/api/v1/jobs", json={**NOOP, "tasks": [{"name": "only"}, {"name": "second"}]})
    forgetful()

    answer = await caller.post("/api/v1/runs", json={"job": "noop", "idempotency_key": key})

    run = read(answer, RunView)
    assert (run.job_version, run.task_count) == (1, 1)
    assert read(await caller.get(f"/api/v1/runs/{run.id}"), RunView).job_id == run.job_id


@pytest.mark.parametrize("by_id", [True, False])
async def test_a_run_of_a_lost_job_id_is_a_conflict_until_it_is_submitted_again(
    harness: ApiHarness, forgetful: Callable[[], None], by_id: bool
) -> None:
    caller = await harness.admin("acme")
    job = read(await caller.post("/api/v1/jobs", json=NOOP), JobView)
    payload = {"job": job.id if by_id else "noop", "idempotency_key": "k"}
    forgetful()

    refused = await caller.post("/api/v1/runs", json=payload)
    new = read(await caller.post("/api/v1/jobs", json=NOOP), JobView)
    taken = await caller.post("/api/v1/runs", json={**payload, "job": new.id if by_id else "noop"})

    assert problem(refused, 409)["code"] == "job_missing"
    assert taken.status_code == 201


async def test_only_runs_of_the_lost_job_fail_in_a_bulk_request(
    harness: ApiHarness, forgetful: Callable[[], None]
) -> None:
    caller = await harness.admin("acme")
    kept = read(await caller.post("/api/v1/jobs", json=NOOP), JobView)
    lost = read(await caller.post("/api/v1/jobs", json={**NOOP, "timeout_seconds": 60}), JobView)
    forgetful()
    lines = [
        msgspec.json.encode({"job": job, "idempotency_key": key})
        for job, key in ((kept.id, "a"), (lost.id, "b"), ("noop", "c"), (kept.id, None), (lost.id, None))
    ]

    answers = await bulk(caller, lines)

    assert [line.id is not None for line in answers] == [True, False, True, True, False]
    assert [line.problem.code for line in answers if line.problem] == ["job_missing"] * 2


async def test_no_run_is_created_if_one_has_a_lost_job(harness: ApiHarness, forgetful: Callable[[], None]) -> None:
    caller = await harness.admin("acme")
    await caller.post("/api/v1/jobs", json=NOOP)
    lost = read(await caller.post("/api/v1/jobs", json={**NOOP, "timeout_seconds": 60}), JobView)
    forgetful()
    lines = [b'{"job": "noop@1"}', msgspec.json.encode({"job": lost.id})]

    answer = await caller.post("/api/v1/runs/bulk", params={"mode": "all"}, content=b"\n".join(lines))

    assert problem(answer, 409)["code"] == "job_missing"
    assert (await caller.get("/api/v1/runs")).json()["items"] == []


async def test_all_lines_resolve_the_job_name_again(harness: ApiHarness, forgetful: Callable[[], None]) -> None:
    caller = await harness.admin("acme")
    await caller.post("/api/v1/jobs", json=NOOP)
    await caller.post("/api/v1/jobs", json={**NOOP, "timeout_seconds": 60})
    forgetful()

    lines = await bulk(caller, [b'{"job": "noop"}'] * 3, mode="all", key="k")

    runs = [read(await caller.get(f"/api/v1/runs/{line.id}"), RunView) for line in lines]
    assert [run.job_version for run in runs] == [1, 1, 1]
