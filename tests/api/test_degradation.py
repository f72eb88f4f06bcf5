"""Effects of a pool's degradation level on submissions (ADM-6, HA-5)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import msgspec
import pytest

from mainspring.app.build import POOL
from mainspring.core.admission.degradation import DegradationLevel
from mainspring.protocol.rest.runs import BulkItemResult
from tests.api.api_harness import NOOP, ApiHarness, problem, submit, until
from tests.server_settings import GENEROUS

P1, P0 = {"priority": "P1"}, {"priority": "P0"}


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ApiHarness]:
    harness = ApiHarness(tmp_path, open_locally=True)
    await harness.store.ensure_shard(POOL)
    yield harness
    await harness.close()


async def look_until(harness: ApiHarness, degree: DegradationLevel) -> None:
    """Observe the pool each second until it has a level."""

    async def is_so() -> bool:
        harness.clock.ahead += 1.0
        await harness.engine.degradation.check_store()
        return harness.engine.degradation.of(POOL).degree is degree

    await until(is_so)


def refused(harness: ApiHarness, reason: str) -> bool:
    """Return whether one submission was counted as rejected for this reason."""
    line = f'mainspring_submissions_refused_total{{reason="{reason}"}} 1.0'
    return line in harness.services.metrics.text().decode()


async def test_a_pool_without_a_leader_rejects_runs_with_a_retry_time(harness: ApiHarness) -> None:
    async with harness.caller() as caller:
        await submit(caller)
        await look_until(harness, DegradationLevel.PARTIAL)
        answer = await caller.post("/api/v1/runs", json={"job": NOOP["name"]})
        assert (answer.status_code, answer.json()["code"]) == (503, "closed")
        assert int(answer.headers["retry-after"]) >= 1
        assert refused(harness, "closed")
        assert (await caller.get("/api/v1/level")).json()["level"] == "partial"

        async with harness.engine.running():
            await harness.engine.leader(POOL)
            await look_until(harness, DegradationLevel.RECOVERY)
            assert (await caller.post("/api/v1/runs", json={"job": NOOP["name"]})).status_code == 201


async def test_every_second_p2_is_shed_at_a_long_backlog(harness: ApiHarness) -> None:
    async with harness.caller() as caller:
        await caller.put("/api/v1/settings/shed_half_p2_at", json={"value": 2})
        await submit(caller)
        await caller.post("/api/v1/runs", json={"job": NOOP["name"]})
        await harness.engine.degradation.check_store()
        await harness.engine.degradation.count()
        answers = [await caller.post("/api/v1/runs", json={"job": NOOP["name"]}) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [201, 429, 201, 429]
        assert answers[1].json()["code"] == "overloaded"
        assert answers[1].headers["retry-after"] == "2"
        p1 = await caller.post("/api/v1/runs", json={"job": NOOP["name"], "priority": "P1"})
        assert p1.status_code == 201


async def set_spool_full(harness: ApiHarness, caller: httpx2.AsyncClient, pool: str, runs: int) -> None:
    """Queue this many runs, and have the server count them."""
    await harness.store.ensure_shard(pool)
    for _ in range(runs):
        await submit(caller, {**NOOP, "name": f"of-{pool}", "pool": pool}, priority="P0")
    await harness.engine.degradation.check_store()
    await harness.engine.degradation.count()
    await harness.engine.degradation.check_store()


async def test_a_very_long_backlog_slows_p1_and_not_p0(tmp_path: Path) -> None:
    """ADM-6, the last step: P1 at its pool's limit, with retry times; no P2 at all."""
    thresholds = {"shed_half_p2_at": "1", "shed_p2_at": "2", "slow_p1_at": "3", "slowed_p1_per_second": "2"}
    harness = ApiHarness(tmp_path, open_locally=True, given={**GENEROUS, **thresholds})
    harness.clock.stop()
    async with harness.caller() as caller:
        await submit(caller)
        await set_spool_full(harness, caller, POOL, 3)
        job = {"job": NOOP["name"]}
        answers = [await caller.post("/api/v1/runs", json=job | P1) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [201, 201, 429]
        reported = problem(answers[2], 429)
        assert f"pool {POOL} exceeded (2 new P1 runs/s)" in reported["detail"]
        assert 1 <= int(answers[2].headers["retry-after"]) <= reported["retry_after_seconds"] + 1
        assert refused(harness, "shed")
        assert (await caller.post("/api/v1/runs", json=job)).headers["retry-after"] == "30"
        assert {(await caller.post("/api/v1/runs", json=job | P0)).status_code for _ in range(9)} == {201}
        harness.clock.ahead += reported["retry_after_seconds"]
        assert (await caller.post("/api/v1/runs", json=job | P1)).status_code == 201
    await harness.close()


@pytest.fixture
async def rationed(tmp_path: Path) -> AsyncIterator[ApiHarness]:
    """A server with two pools and a limit of four submissions per second; `far` is degraded."""
    harness = ApiHarness(
        tmp_path, open_locally=True, given={**GENEROUS, "tenant_submissions_per_second": "4", "shed_half_p2_at": "2"}
    )
    harness.clock.stop()
    await harness.store.ensure_shard("far")
    await harness.engine.degradation.check_store()
    async with harness.caller() as caller:
        await submit(caller)
        await set_spool_full(harness, caller, "far", 2)
    assert harness.engine.degradation.of("far").degree is DegradationLevel.DEGRADED
    assert harness.engine.degradation.of(POOL).degree is DegradationLevel.NORMAL
    harness.clock.ahead += 2.0
    yield harness
    await harness.close()


@pytest.mark.parametrize(
    ("job", "priority", "let_in"), [("of-far", P1, 2), ("of-far", P0, 4), ("of-far@1", P1, 2), ("noop", P1, 4)]
)
async def test_a_degraded_pool_accepts_work_at_half_the_rate(
    rationed: ApiHarness, job: str, priority: dict[str, str], let_in: int
) -> None:
    """HA-5: P0 and healthy pools keep the full rate."""
    async with rationed.caller() as caller:
        answers = [await caller.post("/api/v1/runs", json={"job": job, **priority}) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [201] * let_in + [429] * (6 - let_in)
    assert f"tenant default exceeded ({let_in} submissions/s)" in problem(answers[-1], 429)["detail"]


@pytest.mark.parametrize(("job", "priority", "let_in"), [("of-far", P1, 2), ("of-far", P0, 4), ("noop", P1, 4)])
async def test_bulk_requests_are_rate_limited_like_single_ones(
    rationed: ApiHarness, job: str, priority: dict[str, str], let_in: int
) -> None:
    """Each request of up to a thousand runs counts as one submission."""
    line = json.dumps({"job": job, **priority})
    async with rationed.caller() as caller:
        answers = [await caller.post("/api/v1/runs/bulk", content=f"{line}\n{line}\n") for _ in range(6)]
    ends = [{status_of(line) for line in answer.text.splitlines()} for answer in answers]
    assert ends == [{None}] * let_in + [{429}] * (6 - let_in)


def status_of(line: str) -> int | None:
    """Return the status of a run's problem; None if it was created."""
    problem = msgspec.json.decode(line, type=BulkItemResult).problem
    return None if problem is None else problem.status
