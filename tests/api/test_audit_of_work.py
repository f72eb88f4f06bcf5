"""What the audit log says of jobs, runs and tasks: one entry for each request that changed something (I-73)."""

from __future__ import annotations

import asyncio

import httpx2
import msgspec

from mainspring.core.model.audit_entry import AuditRow
from mainspring.store.ports.admin import AuditFilter
from tests.api.office import NOOP, Office, problem, running_task, submit

SECRET_PARAMS = {"password": "canary-7"}


async def entries(office: Office, act: str) -> list[AuditRow]:
    """What the log says of an operation, the oldest first."""
    return (await office.store.list_audit(AuditFilter(act=act), None, 1_000))[::-1]


async def test_a_job_and_a_run_are_told_of_and_parameters_never(office: Office) -> None:
    caller = await office.admin("acme")
    run = await submit(caller, params=SECRET_PARAMS)

    (job,) = await entries(office, "create_job")
    (made,) = await entries(office, "create_run")

    assert (job.object, job.tenant, job.actor, job.source) == ("noop", "acme", "token:a-test", "127.0.0.1")
    assert msgspec.json.decode(made.after or "") == {"id": run.id, "job": "noop", "priority": "P2"}
    assert "canary-7" not in "".join(filter(None, (made.before, made.after, made.why, made.object)))


async def test_of_a_key_every_request_is_told_that_was_accepted(office: Office) -> None:
    caller = await office.admin("acme")
    await submit(caller)
    key = {"Idempotency-Key": "k"}

    for _ in range(2):
        await caller.post("/api/v1/runs", json={"job": "noop"}, headers=key)
    problem(await caller.post("/api/v1/runs", json={"job": "noop", "priority": "P1"}, headers=key), 409)

    assert len(await entries(office, "create_run")) == 1 + 2


async def test_runs_that_come_together_are_told_of_one_by_one(office: Office) -> None:
    caller = await office.admin("acme")
    await submit(caller)

    await asyncio.gather(*(caller.post("/api/v1/runs", json={"job": "noop"}) for _ in range(20)))

    told = await entries(office, "create_run")
    assert len({entry.object for entry in told}) == len({entry.id for entry in told}) == 21


async def test_of_many_runs_in_one_transaction_there_is_one_entry(office: Office) -> None:
    caller = await office.admin("acme")
    await submit(caller)

    ids = await bulk(caller, [{"job": "noop", "params": SECRET_PARAMS}] * 3, "all")

    (entry,) = await entries(office, "create_runs")
    assert msgspec.json.decode(entry.after or "") == {"runs": 3, "first": ids[0], "last": ids[-1]}


async def test_of_lines_that_are_written_together_there_is_one_entry_and_one_for_each_key(office: Office) -> None:
    """A line that is refused is not told of."""
    caller = await office.admin("acme")
    await submit(caller)
    lines: list[dict[str, object]] = [{"job": "noop"}] * 1_000
    lines += [{"job": "none"}, {"job": "noop"}, {"job": "noop", "idempotency_key": "k"}]

    ids = await bulk(caller, lines, "each")

    told = [msgspec.json.decode(entry.after or "") for entry in await entries(office, "create_runs")]
    together = [one for one in told if "runs" in one]
    assert [(one["first"], one["last"]) for one in together] == [(ids[0], ids[999]), (ids[1_001], ids[1_001])]
    assert [one["runs"] for one in together] == [1_000, 1]
    assert [one["id"] for one in told if "runs" not in one] == [ids[1_002]]


async def test_acts_are_told_of_with_what_was_before_and_what_became_of_them(office: Office) -> None:
    caller = await office.admin("acme")
    async with office.led() as leader:
        _, task = await running_task(office, caller, leader)
        await caller.post(f"/api/v1/tasks/{task.id}/extend", json={"seconds": 60, "why": "a large file"})
        await caller.put(f"/api/v1/tasks/{task.id}/checkpoint", json=SECRET_PARAMS)
        await caller.post(f"/api/v1/runs/{task.run_id}/priority", json={"priority": "P1"})
        await caller.post(f"/api/v1/tasks/{task.id}/kill")
        await caller.post(f"/api/v1/runs/{task.run_id}/cancel")

    (extended,) = await entries(office, "extend_task")
    assert (extended.object, extended.why) == (task.id, "a large file")
    assert msgspec.json.decode(extended.after or "")["reply"] == "already"
    assert '"state":"RUNNING"' in (extended.before or "")
    (saved,) = await entries(office, "put_checkpoint")
    assert "canary-7" not in f"{saved.before}{saved.after}"
    (changed,) = await entries(office, "change_priority")
    assert '"priority":"P2"' in (changed.before or "")
    assert len(await entries(office, "kill_task")) == len(await entries(office, "cancel_run")) == 1


async def test_a_job_that_is_deleted_is_told_of_and_a_refusal_is_not(office: Office) -> None:
    caller = await office.admin("acme")
    await submit(caller, NOOP)

    await caller.delete("/api/v1/jobs/noop?why=old")
    problem(await caller.delete("/api/v1/jobs/noop"), 404)

    (deleted,) = await entries(office, "delete_job")
    assert (deleted.object, deleted.why) == ("noop", "old")


async def bulk(caller: httpx2.AsyncClient, lines: list[dict[str, object]], mode: str) -> list[str]:
    """Submit lines; their ids, empty for one that was refused."""
    content = b"\n".join(map(msgspec.json.encode, lines))
    answer = await caller.post("/api/v1/runs/bulk", params={"mode": mode}, content=content)
    assert answer.is_success, answer.text
    return [msgspec.json.decode(line).get("id", "") for line in answer.content.splitlines()]
