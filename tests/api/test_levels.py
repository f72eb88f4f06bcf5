"""What a server's level means for whoever submits (HA-5, ADM-6)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import msgspec
import pytest

from mainspring.app.build import POOL
from mainspring.core.admission.degradation import Degree
from mainspring.protocol.rest.runs import BulkLine
from tests.api.office import NOOP, Office, problem, submit, until
from tests.generous import GENEROUS

P1, P0 = {"priority": "P1"}, {"priority": "P0"}


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    office = Office(tmp_path, open_locally=True)
    await office.store.ensure_shard(POOL)
    yield office
    await office.close()


async def look_until(office: Office, degree: Degree) -> None:
    """Look at the pool, a second apart, until it is at a level."""

    async def is_so() -> bool:
        office.clock.ahead += 1.0
        await office.engine.levels.look()
        return office.engine.levels.of(POOL).degree is degree

    await until(is_so)


def refused(office: Office, reason: str) -> bool:
    """Whether one submission was counted as refused for this reason."""
    line = f'mainspring_submissions_refused_total{{reason="{reason}"}} 1.0'
    return line in office.services.metrics.text().decode()


async def test_a_pool_that_nobody_leads_takes_nothing_new_and_says_when_to_come_again(office: Office) -> None:
    async with office.caller() as caller:
        await submit(caller)
        await look_until(office, Degree.PARTIAL)
        answer = await caller.post("/api/v1/runs", json={"job": NOOP["name"]})
        assert (answer.status_code, answer.json()["code"]) == (503, "closed")
        assert "the pool has no leader" in answer.json()["detail"]
        assert int(answer.headers["retry-after"]) >= 1
        assert refused(office, "closed")
        assert (await caller.get("/api/v1/level")).json()["level"] == "partial"

        async with office.engine.running():
            await office.engine.leader(POOL)
            await look_until(office, Degree.RECOVERY)
            assert (await caller.post("/api/v1/runs", json={"job": NOOP["name"]})).status_code == 201


async def test_every_second_p2_is_refused_while_too_many_wait(office: Office) -> None:
    async with office.caller() as caller:
        await caller.put("/api/v1/settings/shed_half_p2_at", json={"value": 2})
        await submit(caller)
        await caller.post("/api/v1/runs", json={"job": NOOP["name"]})
        await office.engine.levels.look()
        await office.engine.levels.count()
        answers = [await caller.post("/api/v1/runs", json={"job": NOOP["name"]}) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [201, 429, 201, 429]
        assert answers[1].json()["code"] == "overloaded"
        assert answers[1].headers["retry-after"] == "2"
        p1 = await caller.post("/api/v1/runs", json={"job": NOOP["name"], "priority": "P1"})
        assert p1.status_code == 201


async def crowd(office: Office, caller: httpx2.AsyncClient, pool: str, runs: int) -> None:
    """So many runs wait in a pool, and the server has counted them."""
    await office.store.ensure_shard(pool)
    for _ in range(runs):
        await submit(caller, {**NOOP, "name": f"of-{pool}", "pool": pool}, priority="P0")
    await office.engine.levels.look()
    await office.engine.levels.count()
    await office.engine.levels.look()


async def test_far_too_many_wait_p1_is_slowed_down_and_p0_is_not(tmp_path: Path) -> None:
    """ADM-6, the last step: P1 by its pool's own limit, with when to come again; no P2 at all."""
    thresholds = {"shed_half_p2_at": "1", "shed_p2_at": "2", "slow_p1_at": "3", "slowed_p1_per_second": "2"}
    office = Office(tmp_path, open_locally=True, given={**GENEROUS, **thresholds})
    async with office.caller() as caller:
        await submit(caller)
        await crowd(office, caller, POOL, 3)
        job = {"job": NOOP["name"]}
        answers = [await caller.post("/api/v1/runs", json=job | P1) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [201, 201, 429]
        told = problem(answers[2], 429)
        assert told["detail"].startswith(f"pool {POOL} may take 2 new P1 runs in 1 s: come again in ")
        assert 1 <= int(answers[2].headers["retry-after"]) <= told["retry_after_seconds"] + 1
        assert refused(office, "shed")
        assert (await caller.post("/api/v1/runs", json=job)).headers["retry-after"] == "30"
        assert {(await caller.post("/api/v1/runs", json=job | P0)).status_code for _ in range(9)} == {201}
        office.clock.ahead += told["retry_after_seconds"]
        assert (await caller.post("/api/v1/runs", json=job | P1)).status_code == 201
    await office.close()


@pytest.fixture
async def rationed(tmp_path: Path) -> AsyncIterator[Office]:
    """A server with two pools on which a tenant may submit four runs in a second, and `far` is degraded."""
    office = Office(
        tmp_path, open_locally=True, given={**GENEROUS, "tenant_submissions_per_second": "4", "shed_half_p2_at": "2"}
    )
    await office.store.ensure_shard("far")
    await office.engine.levels.look()
    async with office.caller() as caller:
        await submit(caller)
        await crowd(office, caller, "far", 2)
    assert office.engine.levels.of("far").degree is Degree.DEGRADED
    assert office.engine.levels.of(POOL).degree is Degree.NORMAL
    office.clock.ahead += 2.0
    yield office
    await office.close()


@pytest.mark.parametrize(
    ("job", "priority", "let_in"), [("of-far", P1, 2), ("of-far", P0, 4), ("of-far@1", P1, 2), ("noop", P1, 4)]
)
async def test_a_degraded_pool_takes_new_work_at_half_the_usual_rates(
    rationed: Office, job: str, priority: dict[str, str], let_in: int
) -> None:
    """HA-5: but P0 as ever, and so does a pool that is well."""
    async with rationed.caller() as caller:
        answers = [await caller.post("/api/v1/runs", json={"job": job, **priority}) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [201] * let_in + [429] * (6 - let_in)
    assert f"tenant default may make {let_in} submissions in 1 s" in problem(answers[-1], 429)["detail"]


@pytest.mark.parametrize(("job", "priority", "let_in"), [("of-far", P1, 2), ("of-far", P0, 4), ("noop", P1, 4)])
async def test_many_runs_of_one_request_are_cut_as_each_of_them_would_be(
    rationed: Office, job: str, priority: dict[str, str], let_in: int
) -> None:
    """Each request counts as one, as far as it has up to a thousand runs."""
    line = json.dumps({"job": job, **priority})
    async with rationed.caller() as caller:
        answers = [await caller.post("/api/v1/runs/bulk", content=f"{line}\n{line}\n") for _ in range(6)]
    ends = [{status_of(line) for line in answer.text.splitlines()} for answer in answers]
    assert ends == [{None}] * let_in + [{429}] * (6 - let_in)


def status_of(line: str) -> int | None:
    """What is wrong with a run of many; None: it was made."""
    problem = msgspec.json.decode(line, type=BulkLine).problem
    return None if problem is None else problem.status
