"""Submission of jobs and runs: validation, idempotency and bulk requests."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import msgspec
import pytest

from mainspring.api.auth.principal import Role
from mainspring.protocol.rest.runs import BulkItemResult, JobView, Page, RunView, TaskView
from tests.api.api_harness import NOOP, ApiHarness, pointers, problem, read, submit
from tests.host.host_harness import ScriptedWorker


async def test_a_run_is_created_and_executed(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        hand = await ScriptedWorker("w1", leader, "s1").welcome()
        run = await submit(caller, params={"day": "2026-11-15"}, priority="P1")
        await hand.finish((await hand.next_task()).attempt, '{"rows": 7}')
        ended = read(await caller.get(f"/api/v1/runs/{run.id}"), RunView)
        (task,) = read(await caller.get(f"/api/v1/runs/{run.id}/tasks"), Page[TaskView]).items

    assert (ended.job, ended.job_version, ended.tenant, ended.priority) == ("noop", 1, "acme", "P1")
    assert (ended.state, ended.task_states) == ("SUCCEEDED", {"SUCCEEDED": 1})
    assert msgspec.json.decode(ended.params) == {"day": "2026-11-15"}
    assert ended.submitted_by == "token:a-test"
    assert (task.name, task.attempt, bytes(task.output), bytes(task.error)) == ("only", 1, b'{"rows": 7}', b"null")


async def test_the_response_to_a_new_run_has_its_location(harness: ApiHarness) -> None:
    caller = await harness.admin()
    await caller.post("/api/v1/jobs", json=NOOP)

    answer = await caller.post("/api/v1/runs", json={"job": "noop"})

    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/v1/runs/{read(answer, RunView).id}"
    assert "idempotent-replayed" not in answer.headers
    assert read(await caller.get(answer.headers["location"]), RunView).tenant == "default"


async def test_a_job_has_versions_and_the_same_definition_is_the_same_version(harness: ApiHarness) -> None:
    caller = await harness.admin()
    changed = {**NOOP, "tasks": [{"name": "only"}, {"name": "second"}]}

    answers = [await caller.post("/api/v1/jobs", json=job) for job in (NOOP, NOOP, changed)]
    latest = read(await caller.get("/api/v1/jobs/noop"), JobView)
    first = read(await caller.get("/api/v1/jobs/noop", params={"version": 1}), JobView)

    assert [answer.status_code for answer in answers] == [201, 200, 201]
    assert [read(answer, JobView).version for answer in answers] == [1, 1, 2]
    assert (latest.version, len(msgspec.json.decode(latest.definition)["tasks"])) == (2, 2)
    assert (first.version, len(msgspec.json.decode(first.definition)["tasks"])) == (1, 1)


@pytest.mark.parametrize(("reference", "version"), [("noop", 2), ("noop@1", 1), ("{first}", 1)])
async def test_a_run_refers_to_its_job_by_name_version_or_id(harness: ApiHarness, reference: str, version: int) -> None:
    """The new version is used immediately on its server, although the latest one is cached."""
    caller = await harness.admin()
    first = read(await caller.post("/api/v1/jobs", json=NOOP), JobView)
    await caller.post("/api/v1/runs", json={"job": "noop"})
    await caller.post("/api/v1/jobs", json={**NOOP, "timeout_seconds": 60})

    run = read(await caller.post("/api/v1/runs", json={"job": reference.format(first=first.id)}), RunView)

    assert run.job_version == version


async def test_every_fault_of_a_job_has_a_pointer(harness: ApiHarness) -> None:
    caller = await harness.admin()
    job = {"name": "No!", "tasks": [{"name": "a", "needs": [{"task": "b"}]}, {"name": "c", "max_attempts": 99}]}

    body = problem(await caller.post("/api/v1/jobs", json=job), 422)

    assert body["code"] == "refused"
    assert sorted(pointers(body)) == ["/name", "/tasks/0/needs/0/task", "/tasks/1/max_attempts"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"job": "noop"', [""]),
        (b"[]", [""]),
        (b'{"job": 7, "priority": "P9", "color": 1}', ["/color", "/job"]),
        (b'{"job": "nope", "priority": "P9"}', ["/job", "/priority"]),
        (b'{"job": "noop", "params": {"a": "\\u0000"}}', ["/params/a"]),
        (b'{"job": "noop", "job": "noop"}', [""]),
        (b'{"job": "noop", "start_at": "2026-11-15T00:00:00"}', ["/start_at"]),
        (b'{"job": "noop", "idempotency_key": ""}', ["/idempotency_key"]),
        (b"\xff", [""]),
    ],
)
async def test_an_invalid_run_is_rejected_with_its_faults(
    harness: ApiHarness, body: bytes, expected: list[str]
) -> None:
    caller = await harness.admin()
    await caller.post("/api/v1/jobs", json=NOOP)

    found = problem(await caller.post("/api/v1/runs", content=body), 422)

    assert sorted(pointers(found)) == expected


async def test_a_body_is_read_up_to_its_limit(harness: ApiHarness) -> None:
    caller = await harness.admin()

    async def endless() -> Any:
        while True:
            yield b" " * 65_536

    assert problem(await caller.post("/api/v1/runs", content=endless()), 413)["code"] == "too_large"
    assert problem(await caller.post("/api/v1/runs", content=b" " * 2_000_000), 413)["code"] == "too_large"


# idempotency


async def test_a_repeated_key_creates_one_run(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    await caller.post("/api/v1/jobs", json=NOOP)
    payload = {"job": "noop", "params": {"a": 1, "b": 2}}
    written_otherwise = b'{ "params": {"b": 2, "a": 1}, "job": "noop", "idempotency_key": "k" }'

    first = await caller.post("/api/v1/runs", json=payload, headers={"idempotency-key": "k"})
    again = await caller.post("/api/v1/runs", json=payload, headers={"idempotency-key": "k"})
    in_body = await caller.post("/api/v1/runs", content=written_otherwise)

    ids = {read(answer, RunView).id for answer in (first, again, in_body)}
    assert len(ids) == 1
    assert [answer.status_code for answer in (first, again)] == [201, 201]
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == in_body.headers["idempotent-replayed"] == "true"


async def test_a_key_with_another_body_is_a_conflict(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    await caller.post("/api/v1/jobs", json=NOOP)
    await caller.post("/api/v1/runs", json={"job": "noop"}, headers={"idempotency-key": "k"})

    answer = await caller.post("/api/v1/runs", json={"job": "noop", "priority": "P1"}, headers={"idempotency-key": "k"})

    assert problem(answer, 409)["code"] == "key_reused"


async def test_a_key_of_another_tenant_is_another_key(harness: ApiHarness) -> None:
    acme, globex = await harness.admin("acme"), await harness.admin("globex")
    runs = []
    for caller in (acme, globex):
        await caller.post("/api/v1/jobs", json=NOOP)
        runs.append(read(await caller.post("/api/v1/runs", json={"job": "noop", "idempotency_key": "k"}), RunView))

    assert runs[0].id != runs[1].id


async def test_concurrent_runs_are_all_created(harness: ApiHarness) -> None:
    caller = await harness.admin()
    await caller.post("/api/v1/jobs", json=NOOP)

    answers = await asyncio.gather(*(caller.post("/api/v1/runs", json={"job": "noop"}) for _ in range(100)))

    ids = [read(answer, RunView).id for answer in answers]
    assert len(set(ids)) == 100
    assert all([await harness.store.run(run_id) for run_id in ids])


async def test_concurrent_keyed_runs_are_all_created_once(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    await caller.post("/api/v1/jobs", json=NOOP)
    payloads = [{"job": "noop", "idempotency_key": f"k{number}"} for number in range(100)]

    first = await asyncio.gather(*(caller.post("/api/v1/runs", json=payload) for payload in payloads))
    again = await asyncio.gather(*(caller.post("/api/v1/runs", json=payload) for payload in payloads))

    ids = [read(answer, RunView).id for answer in first]
    assert len(set(ids)) == 100
    assert [read(answer, RunView).id for answer in again] == ids
    assert not any("idempotent-replayed" in answer.headers for answer in first)
    assert all(answer.headers["idempotent-replayed"] == "true" for answer in again)


async def test_concurrent_requests_with_one_key_and_different_bodies(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    await caller.post("/api/v1/jobs", json=NOOP)
    payload = {"job": "noop", "idempotency_key": "k"}

    answers = await asyncio.gather(
        *(caller.post("/api/v1/runs", json=body) for body in (payload, payload, {**payload, "priority": "P1"}))
    )

    statuses = [answer.status_code for answer in answers]
    assert statuses == [201, 201, 409]
    assert read(answers[0], RunView).id == read(answers[1], RunView).id
    assert ["idempotent-replayed" in answer.headers for answer in answers] == [False, True, False]
    assert problem(answers[2], 409)["code"] == "key_reused"


# many in one request


async def test_lines_with_the_same_key_create_one_run(harness: ApiHarness) -> None:
    """The first one counts; only another body is rejected."""
    caller = await harness.admin("acme")
    await caller.post("/api/v1/jobs", json=NOOP)
    payloads: list[tuple[str, str | None]] = [("P2", "k"), ("P2", None), ("P2", "k"), ("P1", "k"), ("P1", "other")]
    lines = [
        msgspec.json.encode({"job": "noop", "priority": priority, "idempotency_key": key}) for priority, key in payloads
    ]

    first = await bulk(caller, lines)
    again = await bulk(caller, lines)

    assert first[0].id == first[2].id == again[0].id == again[2].id
    assert len({first[0].id, first[1].id, first[4].id, again[1].id}) == 4
    for answers in (first, again):
        assert [line.problem.code for line in answers if line.problem] == ["key_reused"]
        assert answers[3].problem is not None
    assert first[4].id == again[4].id


async def test_each_line_is_handled_separately(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    await caller.post("/api/v1/jobs", json=NOOP)
    lines = [b'{"job": "noop"}', b'{"job": "nope"}', b"", b"{", b'{"job": "noop", "idempotency_key": "k"}']

    first = await bulk(caller, lines)
    again = await bulk(caller, lines[-1:])

    assert [line.index for line in first] == [0, 1, 2, 3]
    assert [line.id is not None for line in first] == [True, False, False, True]
    assert [line.problem.code for line in first if line.problem] == ["refused", "refused"]
    assert first[1].problem is not None
    assert [fault.pointer for fault in first[1].problem.errors] == ["/job"]
    assert again[0].id == first[3].id
    assert await harness.store.run(first[0].id or "") is not None


async def test_an_oversized_line_ends_the_request_after_the_lines_before_it(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    await caller.post("/api/v1/jobs", json=NOOP)

    first, last = await bulk(caller, [b'{"job": "noop"}', b" " * 1_000_000 + b"{}", b'{"job": "noop"}'])

    assert first.id is not None
    assert last.problem is not None
    assert (last.index, last.problem.code) == (1, "too_large")


async def test_all_lines_are_created_or_none(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    await caller.post("/api/v1/jobs", json=NOOP)
    good = [b'{"job": "noop"}'] * 3

    bad = await caller.post(
        "/api/v1/runs/bulk", params={"mode": "all"}, content=b"\n".join([*good, b'{"job": "x", "priority": "P7"}'])
    )
    runs_then = (await caller.get("/api/v1/runs")).json()["items"]
    made = await bulk(caller, good, mode="all")

    assert sorted(pointers(problem(bad, 422))) == ["/3/job", "/3/priority"]
    assert runs_then == []
    assert len({line.id for line in made}) == 3


async def test_a_key_for_all_lines_creates_them_once(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    await caller.post("/api/v1/jobs", json=NOOP)
    good = [b'{"job": "noop"}'] * 3

    first = await bulk(caller, good, mode="all", key="k")
    again = await bulk(caller, good, mode="all", key="k")
    other = await caller.post(
        "/api/v1/runs/bulk", params={"mode": "all"}, content=good[0], headers={"idempotency-key": "k"}
    )

    assert first == again
    assert problem(other, 409)["code"] == "key_reused"


async def test_the_same_lines_for_other_tenants_are_another_body(harness: ApiHarness) -> None:
    caller = await harness.admin()
    for tenant in ("acme", "globex"):
        await caller.post("/api/v1/jobs", json=NOOP, params={"tenant": tenant})
    to_acme, to_globex = b'{"job": "noop", "tenant": "acme"}', b'{"job": "noop", "tenant": "globex"}'
    await bulk(caller, [to_acme, to_globex], mode="all", key="k")

    other = await caller.post(
        "/api/v1/runs/bulk", params={"mode": "all"}, content=to_acme + b"\n" + to_acme, headers={"idempotency-key": "k"}
    )

    assert problem(other, 409)["code"] == "key_reused"


async def test_lines_in_one_transaction_are_limited(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")

    answer = await caller.post("/api/v1/runs/bulk", params={"mode": "all"}, content=b"{}\n" * 10_001)

    assert problem(answer, 413)["code"] == "too_large"


async def test_more_than_a_chunk_of_lines_is_answered_in_order(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    await caller.post("/api/v1/jobs", json=NOOP)

    lines = await bulk(caller, [b'{"job": "noop"}'] * 2_500)

    assert [line.index for line in lines] == list(range(2_500))
    assert len({line.id for line in lines}) == 2_500


async def test_a_submitter_is_limited_to_its_tenant(harness: ApiHarness) -> None:
    caller = harness.caller(await harness.token(Role.SUBMITTER, tenant="acme"))
    await caller.post("/api/v1/jobs", json=NOOP)

    one = await caller.post("/api/v1/runs", json={"job": "noop", "tenant": "globex"})
    job = await caller.post("/api/v1/jobs", json=NOOP, params={"tenant": "globex"})
    (line,) = await bulk(caller, [b'{"job": "noop", "tenant": "globex"}'])

    assert problem(one, 403)["code"] == problem(job, 403)["code"] == "forbidden"
    assert line.problem is not None
    assert line.problem.code == "forbidden"


async def bulk(
    caller: httpx2.AsyncClient, lines: list[bytes], mode: str = "each", key: str | None = None
) -> list[BulkItemResult]:
    """Return the results of a bulk request."""
    headers = {"idempotency-key": key} if key is not None else {}
    answer = await caller.post("/api/v1/runs/bulk", params={"mode": mode}, content=b"\n".join(lines), headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return msgspec.json.Decoder(BulkItemResult).decode_lines(answer.content)
