"""Audit entries of jobs, runs and tasks: one for each request that changed something (I-73)."""

from __future__ import annotations

import asyncio

import httpx2
import msgspec

from mainspring.core.model.audit_entry import AuditRow
from mainspring.store.ports.admin import AuditFilter
from tests.api.api_harness import NOOP, ApiHarness, problem, running_task, submit

SECRET_PARAMS = {"password": "canary-7"}


async def entries(harness: ApiHarness, action: str) -> list[AuditRow]:
    """Return the entries of an operation, oldest first."""
    return (await harness.store.list_audit(AuditFilter(action=action), None, 1_000))[::-1]


async def test_jobs_and_runs_are_audited_without_parameters(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    run = await submit(caller, params=SECRET_PARAMS)

    (job,) = await entries(harness, "create_job")
    (made,) = await entries(harness, "create_run")

    assert (job.object, job.tenant, job.actor, job.source) == ("noop", "acme", "token:a-test", "127.0.0.1")
    assert msgspec.json.decode(made.after or "") == {"id": run.id, "job": "noop", "priority": "P2"}
    assert "canary-7" not in "".join(filter(None, (made.before, made.after, made.why, made.object)))


async def test_every_accepted_request_of_a_key_is_audited(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    await submit(caller)
    key = {"Idempotency-Key": "k"}

    for _ in range(2):
        await caller.post("/api/v1/runs", json={"job": "noop"}, headers=key)
    problem(await caller.post("/api/v1/runs", json={"job": "noop", "priority": "P1"}, headers=key), 409)

    assert len(await entries(harness, "create_run")) == 1 + 2


async def test_concurrent_runs_are_audited_separately(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    await submit(caller)

    await asyncio.gather(*(caller.post("/api/v1/runs", json={"job": "noop"}) for _ in range(20)))

    reported = await entries(harness, "create_run")
    assert len({entry.object for entry in reported}) == len({entry.id for entry in reported}) == 21


async def test_many_runs_in_one_transaction_have_one_entry(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    await submit(caller)

    ids = await bulk(caller, [{"job": "noop", "params": SECRET_PARAMS}] * 3, "all")

    (entry,) = await entries(harness, "create_runs")
    assert msgspec.json.decode(entry.after or "") == {"runs": 3, "first": ids[0], "last": ids[-1]}


async def test_lines_written_together_share_an_entry_and_keyed_ones_have_their_own(harness: ApiHarness) -> None:
    """A rejected line is not audited."""
    caller = await harness.admin("acme")
    await submit(caller)
    lines: list[dict[str, object]] = [{"job": "noop"}] * 1_000
    lines += [{"job": "none"}, {"job": "noop"}, {"job": "noop", "idempotency_key": "k"}]

    ids = await bulk(caller, lines, "each")

    reported = [msgspec.json.decode(entry.after or "") for entry in await entries(harness, "create_runs")]
    together = [one for one in reported if "runs" in one]
    assert [(one["first"], one["last"]) for one in together] == [(ids[0], ids[999]), (ids[1_001], ids[1_001])]
    assert [one["runs"] for one in together] == [1_000, 1]
    assert [one["id"] for one in reported if "runs" not in one] == [ids[1_002]]


async def test_actions_are_audited_with_old_and_new_values(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        _, task = await running_task(harness, caller, leader)
        await caller.post(f"/api/v1/tasks/{task.id}/extend", json={"seconds": 60, "why": "a large file"})
        await caller.put(f"/api/v1/tasks/{task.id}/checkpoint", json=SECRET_PARAMS)
        await caller.post(f"/api/v1/runs/{task.run_id}/priority", json={"priority": "P1"})
        await caller.post(f"/api/v1/tasks/{task.id}/kill")
        await caller.post(f"/api/v1/runs/{task.run_id}/cancel")

    (extended,) = await entries(harness, "extend_task")
    assert (extended.object, extended.why) == (task.id, "a large file")
    assert msgspec.json.decode(extended.after or "")["reply"] == "already"
    assert '"state":"RUNNING"' in (extended.before or "")
    (saved,) = await entries(harness, "put_checkpoint")
    assert "canary-7" not in f"{saved.before}{saved.after}"
    (changed,) = await entries(harness, "change_priority")
    assert '"priority":"P2"' in (changed.before or "")
    assert len(await entries(harness, "kill_task")) == len(await entries(harness, "cancel_run")) == 1


async def test_deleting_a_job_is_audited_and_a_rejected_delete_is_not(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    await submit(caller, NOOP)

    await caller.delete("/api/v1/jobs/noop?why=old")
    problem(await caller.delete("/api/v1/jobs/noop"), 404)

    (deleted,) = await entries(harness, "delete_job")
    assert (deleted.object, deleted.why) == ("noop", "old")


async def bulk(caller: httpx2.AsyncClient, lines: list[dict[str, object]], mode: str) -> list[str]:
    """Submit lines; return their ids, empty for a rejected one."""
    content = b"\n".join(map(msgspec.json.encode, lines))
    answer = await caller.post("/api/v1/runs/bulk", params={"mode": mode}, content=content)
    assert answer.is_success, answer.text
    return [msgspec.json.decode(line).get("id", "") for line in answer.content.splitlines()]
