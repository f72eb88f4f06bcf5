"""The decision log over the API, without names of other tenants (PLC-8)."""

from __future__ import annotations

from datetime import timedelta

import httpx2

from mainspring.app.build import POOL
from mainspring.core.model.batch import Batch
from mainspring.core.model.decisions import DecisionKind, PreemptedTask
from mainspring.core.model.task import Priority
from mainspring.protocol.rest.decisions import DecisionView
from mainspring.protocol.rest.runs import Page
from tests.api.api_harness import ApiHarness, all_pages, problem, read, submit, until
from tests.host.host_harness import ScriptedWorker
from tests.store.builders import a_decision, a_run, a_task

LARGE: dict[str, object] = {
    "name": "large",
    "tasks": [{"name": "only", "resources": {"cpu_millis": 4_000, "memory_bytes": 2**20}}],
}


async def decisions(caller: httpx2.AsyncClient, path: str = "/api/v1/decisions", **params: str) -> list[DecisionView]:
    """Return the decisions, latest first."""
    found: list[DecisionView] = read(await caller.get(path, params=params), Page[DecisionView]).items
    return found


async def test_a_preemption_shows_victims_to_admins_and_their_number_to_the_tenant(harness: ApiHarness) -> None:
    acme, globex, everybody = await harness.admin("acme"), await harness.admin("globex"), await harness.admin()
    async with harness.led() as leader:
        hand = await ScriptedWorker("w1", leader, "s1").welcome()
        await submit(globex, LARGE, priority="P2")
        low = await hand.next_task()
        high = await submit(acme, LARGE, priority="P0")

        async def is_told() -> bool:
            return bool(await decisions(everybody, kind="preempts"))

        await until(is_told)

    (whole,) = await decisions(everybody, kind="preempts")
    (own,) = await decisions(acme, f"/api/v1/tasks/{whole.task_id}/decisions", limit="1")
    assert (whole.run_id, whole.tenant, whole.pool, whole.worker) == (high.id, "acme", POOL, "w1")
    assert (whole.request.resources.cpu, whole.free and whole.free.cpu) == (4.0, 0.0)
    assert [(one.task_id, one.tenant, one.priority) for one in whole.victims] == [(low.task, "globex", "P2")]
    assert (own.victims, own.victim_total) == ([], 1)
    assert "globex" not in str(own)
    assert await decisions(globex, kind="preempts") == []
    problem(await globex.get(f"/api/v1/tasks/{whole.task_id}/decisions"), 404)


async def test_decisions_are_paged_and_filtered(harness: ApiHarness) -> None:
    acme, now = await harness.admin("acme"), await harness.store.time()
    first, second = (a_task(a_run(shard=POOL)) for _ in range(2))
    theirs = a_task(a_run(shard=POOL, tenant="globex"))
    victims = tuple(
        PreemptedTask(task_id=f"task_{tenant}", tenant=tenant, priority=Priority.P2, lost_seconds=1.0)
        for tenant in ("acme", "globex")
    )
    rows = [
        *(a_decision(first, at=now - timedelta(seconds=5 - number // 2)) for number in range(5)),
        a_decision(second, at=now, worker_id="w2", kind=DecisionKind.PREEMPTS, victims=victims, victim_count=2),
        a_decision(theirs, at=now),
    ]
    await harness.store.ensure_shard(POOL)
    term = await harness.store.campaign(POOL, "a test", 7, timedelta(seconds=60))
    assert term is not None
    await harness.store.commit(term, 1, Batch(decisions=rows))
    mine = sorted((row for row in rows if row.tenant == "acme"), key=lambda row: (row.at, row.id), reverse=True)

    pages = [page async for page in all_pages(acme, "/api/v1/decisions", DecisionView, limit=2)]
    assert [view.id for page in pages for view in page] == [row.id for row in mine]
    (one,) = await decisions(acme, worker="w2", kind="preempts", run=second.run_id, task=second.id)
    assert ([victim.task_id for victim in one.victims], one.victim_total) == (["task_acme"], 2)
    assert len(await decisions(acme, before=(now - timedelta(seconds=4)).isoformat())) == 2
    assert len(await decisions(await harness.admin())) == 7
    problem(await acme.get("/api/v1/decisions", params={"tenant": "globex"}), 403)
    problem(await acme.get("/api/v1/decisions", params={"kind": "guessed"}), 422)
    problem(await acme.get("/api/v1/decisions", params={"cursor": "bm9uZQ"}), 422)
