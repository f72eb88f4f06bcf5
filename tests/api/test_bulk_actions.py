"""Bulk actions on runs: dry run, execution and audit."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec
import pytest

from mainspring.protocol.rest.runs import BulkActionResult, RunView
from mainspring.store.ports.admin import AuditFilter
from tests.api.api_harness import NOOP, ApiHarness, pointers, problem, read, submit

ACT = "/api/v1/runs/act"


async def action(caller: httpx2.AsyncClient, **fields: Any) -> list[BulkActionResult]:
    """Return the result of each run."""
    answer = await caller.post(ACT, json=fields)
    assert answer.is_success, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [msgspec.json.decode(line, type=BulkActionResult) for line in answer.content.splitlines()]


async def test_a_dry_run_lists_the_runs_and_changes_nothing(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    runs = [(await submit(caller)).id for _ in range(3)]
    await submit(caller, {**NOOP, "name": "other"})

    async with harness.led():
        lines = await action(caller, action="cancel", q="job:noop", dry_run=True)
        states = [read(await caller.get(f"/api/v1/runs/{run}"), RunView).cancelled_by for run in runs]

    assert [(line.run_id, line.job, line.changed) for line in lines] == [(run, "noop", False) for run in runs[::-1]]
    assert states == [None] * 3
    assert await harness.store.list_audit(AuditFilter(action="act_on_runs"), None, 10) == []


async def test_all_matching_runs_are_changed_and_audited(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    runs = [(await submit(caller)).id for _ in range(40)]
    other = await submit(caller, {**NOOP, "name": "other"})

    async with harness.led():
        lines = await action(caller, action="cancel", q="job:noo* state:pending,running", why="the numbers look wrong")
        again = await action(caller, action="cancel", q="job:noop")
        left = read(await caller.get(f"/api/v1/runs/{other.id}"), RunView)

    entries = await harness.store.list_audit(AuditFilter(action="act_on_runs"), None, 100)
    assert [(line.run_id, line.changed, line.problem) for line in lines] == [(run, True, None) for run in runs[::-1]]
    assert {line.changed for line in again} == {False}
    assert left.cancelled_by is None
    assert {entry.object for entry in entries if entry.why == "the numbers look wrong"} == set(runs)
    assert len({entry.id for entry in entries}) == len(entries)


async def test_a_priority_is_changed_for_many(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    run = await submit(caller)

    async with harness.led():
        lines = await action(caller, action="priority", q="tenant:acme", priority="p0")
        changed = read(await caller.get(f"/api/v1/runs/{run.id}"), RunView)

    assert [line.changed for line in lines] == [True]
    assert changed.priority == "P0"


async def test_an_error_of_one_run_is_reported_in_its_line(harness: ApiHarness) -> None:
    """Without a leader, each run gets its own error."""
    caller = await harness.admin("acme")
    await harness.store.ensure_shard("default")
    await submit(caller)

    (line,) = await action(caller, action="pause", q="job:noop")

    assert line.problem is not None
    assert line.problem.code == "not_leading"


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"action": "cancel", "q": "  "}, ["/q"]),
        ({"action": "cancel", "q": "job:a color:b"}, ["/q"]),
        ({"action": "explode", "q": "job:a"}, ["/action"]),
        ({"action": "priority", "q": "job:a"}, ["/priority"]),
        ({"action": "cancel", "q": "job:a", "priority": "P1"}, ["/priority"]),
        ({"action": "cancel", "q": "job:a", "most": 0}, ["/most"]),
        ({"action": "cancel", "q": "job:a", "why": "x" * 1_001}, ["/why"]),
    ],
)
async def test_an_invalid_request_is_rejected_with_its_faults(
    harness: ApiHarness, payload: dict[str, object], expected: list[str]
) -> None:
    caller = await harness.admin("acme")

    assert pointers(problem(await caller.post(ACT, json=payload), 422)) == expected


async def test_nothing_is_changed_if_more_runs_match_than_expected(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    run, _ = await submit(caller), await submit(caller)

    async with harness.led():
        refused = problem(await caller.post(ACT, json={"action": "cancel", "q": "job:noop", "most": 1}), 422)
        left = read(await caller.get(f"/api/v1/runs/{run.id}"), RunView)

    assert "more than 1 runs" in refused["detail"]
    assert left.cancelled_by is None


async def test_hidden_runs_are_not_changed(harness: ApiHarness) -> None:
    await submit(await harness.admin("acme"))
    other = await harness.admin("globex")

    async with harness.led():
        assert await action(other, action="cancel", q="job:noop") == []
        problem(await other.post(ACT, json={"action": "cancel", "q": "tenant:acme"}), 403)
