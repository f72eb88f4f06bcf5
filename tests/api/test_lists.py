"""Lists: pages without gaps or duplicates, and filters."""

from __future__ import annotations

import pytest

from mainspring.api.http.cursors import make_cursor
from mainspring.protocol.rest.runs import JobView, Page, RunView, TaskView, TransitionView
from mainspring.shard.events import RunsExpired
from tests.api.api_harness import NOOP, ApiHarness, all_pages, pointers, problem, read, running_task, submit, until
from tests.host.host_harness import ScriptedWorker


async def test_pages_of_runs_are_stable_while_runs_are_created(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    there = [(await submit(caller)).id for _ in range(7)]

    seen: list[list[str]] = []
    async for page in all_pages(caller, "/api/v1/runs", RunView, limit=3):
        seen.append([run.id for run in page])
        await submit(caller)

    assert [len(page) for page in seen] == [3, 3, 1]
    assert [run_id for page in seen for run_id in page] == there[::-1]


async def test_pages_of_jobs_and_tasks(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    names = [f"job-{number}" for number in range(5)]
    for name in names:
        await caller.post("/api/v1/jobs", json={**NOOP, "name": name})
    many: dict[str, object] = {"name": "wide", "tasks": [{"name": f"t{number}"} for number in range(12)]}
    async with harness.led() as leader:
        hand = await ScriptedWorker("w1", leader, "s1", cores=1).welcome()
        run = await submit(caller, many)
        await hand.next_task()

        jobs = [[job.name for job in page] async for page in all_pages(caller, "/api/v1/jobs", JobView, limit=4)]
        pages = [page async for page in all_pages(caller, f"/api/v1/runs/{run.id}/tasks", TaskView, limit=5)]
        overall = [page async for page in all_pages(caller, "/api/v1/tasks", TaskView, limit=12, run=run.id)]

    assert [name for page in jobs for name in page] == [*names, "wide"]
    assert [len(page) for page in pages] == [5, 5, 2]
    assert {task.name for page in pages for task in page} == {f"t{number}" for number in range(12)}
    assert sum(map(len, overall)) == 12


async def test_runs_are_filtered_by_parameters(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    plain = await submit(caller)
    urgent = await submit(caller, {**NOOP, "name": "other"}, priority="P1")

    async def found(**params: str | list[str]) -> list[str]:
        return [run.id for run in read(await caller.get("/api/v1/runs", params=params), Page[RunView]).items]

    assert await found(job="noop") == [plain.id]
    assert await found(priority="P1") == [urgent.id]
    assert await found(state=["RUNNING", "PENDING"]) == [urgent.id, plain.id]
    assert await found(state="FAILED") == []


async def test_tasks_are_filtered_by_parameters(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        _, task = await running_task(harness, caller, leader)

        async def found(**params: str | list[str]) -> list[str]:
            return [one.id for one in read(await caller.get("/api/v1/tasks", params=params), Page[TaskView]).items]

        assert await found(worker="w1") == [task.id]
        assert await found(state=["RUNNING", "FAILED"]) == [task.id]
        assert await found(state="QUEUED") == []
        assert await found(name="only", run=task.run_id) == [task.id]
        assert await found(name="another") == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"limit": "0"}, ["query:limit"]),
        ({"limit": "1001"}, ["query:limit"]),
        ({"limit": "many", "priority": "P9", "state": "LOST"}, ["query:limit", "query:priority", "query:state"]),
        ({"cursor": "!"}, ["query:cursor"]),
        ({"cursor": "WyJ4Il0"}, ["query:cursor"]),
        ({"cursor": "WyJ4IiwieSJd"}, ["query:cursor"]),
        ({"cursor": make_cursor("2026-11-15T00:00:00", "run_x")}, ["query:cursor"]),
        ({"job": "a\0b"}, ["query:job"]),
        ({"stat": "FAILED"}, ["query:stat"]),
        ({"q": "stat:failed priority:p7"}, ["query:q", "query:q"]),
        ({"q": "state:failed", "state": "RUNNING"}, ["query:q"]),
        ({"q": "schedule:nightly"}, ["query:q"]),
        ({"count": "some"}, ["query:count"]),
        ({"sort": "created_at"}, ["query:sort"]),
        ({"fields": "id,color,stat"}, ["query:fields", "query:fields"]),
    ],
)
async def test_an_invalid_query_is_rejected_with_its_faults(
    harness: ApiHarness, query: dict[str, str], expected: list[str]
) -> None:
    caller = await harness.admin()

    body = problem(await caller.get("/api/v1/runs", params=query), 422)

    assert sorted(pointers(body)) == expected


async def test_a_filter_selects_matching_items(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    labeled = {**NOOP, "name": "etl-load", "labels": {"team": "data science"}}
    plain, found = await submit(caller), await submit(caller, labeled, priority="P0")

    async def ids(q: str, **params: str) -> list[str]:
        answer = await caller.get("/api/v1/runs", params={"q": q, **params})
        return [run.id for run in read(answer, Page[RunView]).items]

    assert await ids("pipeline:etl-* priority:p0 label.team='data science' created>1h state:pending") == [found.id]
    assert await ids("created<1h") == []
    assert await ids("tenant:acme", job="noop") == [plain.id]
    assert [job["name"] for job in (await caller.get("/api/v1/jobs?q=label.team:data*")).json()["items"]] == [
        "etl-load"
    ]


async def test_a_filter_does_not_reveal_other_tenants(harness: ApiHarness) -> None:
    await submit(await harness.admin("acme"))
    other = await harness.admin("globex")

    assert (await other.get("/api/v1/runs?q=created>1h")).json()["items"] == []
    problem(await other.get("/api/v1/runs?q=tenant:acme"), 403)
    problem(await other.get("/api/v1/tasks?q=tenant:acme"), 403)
    problem(await other.get("/api/v1/jobs?q=tenant:acme"), 403)
    problem(await other.get("/api/v1/events?q=tenant:acme"), 403)


async def test_a_list_is_counted_on_request(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    for _ in range(3):
        await submit(caller)

    exact = await caller.get("/api/v1/runs?count=exact&limit=1&q=job:noop")
    bounded = await caller.get("/api/v1/runs?count=bounded&limit=1")
    uncounted = await caller.get("/api/v1/runs")

    assert exact.json()["count"] == bounded.json()["count"] == {"value": 3, "at_least": False}
    assert uncounted.json()["count"] is None


async def test_a_page_links_to_the_next_one(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    runs = [(await submit(caller)).id for _ in range(3)]

    first = await caller.get("/api/v1/runs", params={"limit": 2, "q": "job:noop tenant:acme", "state": "PENDING"})
    target, _, relation = first.headers["link"].partition(">; ")
    second = await caller.get(target.removeprefix("<"))

    assert relation == 'rel="next"'
    assert [run["id"] for run in first.json()["items"] + second.json()["items"]] == runs[::-1]
    assert "link" not in second.headers


async def test_items_are_reduced_to_the_requested_fields(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    run = await submit(caller)

    runs = await caller.get("/api/v1/runs?fields=id,params")
    jobs = await caller.get("/api/v1/jobs?fields=name")

    assert runs.json()["items"] == [{"id": run.id, "params": {}}]
    assert jobs.json()["items"] == [{"name": "noop"}]
    assert pointers(problem(await caller.get("/api/v1/jobs?sort=name"), 422)) == ["query:sort"]


async def test_transitions_of_a_task_are_listed(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        hand, task = await running_task(harness, caller, leader)
        under_way = (await caller.get(f"/api/v1/tasks/{task.id}/attempts")).json()["items"]
        assert task.attempt_id is not None
        await hand.finish(task.attempt_id)
        over = (await caller.get(f"/api/v1/tasks/{task.id}/attempts")).json()["items"]
        story = read(await caller.get(f"/api/v1/tasks/{task.id}/transitions"), Page[TransitionView]).items

    assert [(one["id"], one["number"], one["end"]) for one in under_way] == [(task.attempt_id, 1, None)]
    assert [(one["id"], one["number"], one["end"]) for one in over] == [(task.attempt_id, 1, "succeeded")]
    assert [one.end for one in story][-3:] == ["ASSIGNED", "RUNNING", "SUCCEEDED"]
    assert [one.seq for one in story] == sorted(one.seq for one in story)


async def test_a_run_in_history_still_has_its_tasks(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        hand, task = await running_task(harness, caller, leader)
        assert task.attempt_id is not None
        await hand.finish(task.attempt_id)
        leader.inbox.put(RunsExpired(run_ids=(task.run_id,)))

        async def is_in_history() -> bool:
            (listed,) = (await caller.get("/api/v1/runs")).json()["items"]
            return bool(listed["in_history"])

        await until(is_in_history)
        run = read(await caller.get(f"/api/v1/runs/{task.run_id}"), RunView)
        tasks = read(await caller.get(f"/api/v1/runs/{task.run_id}/tasks", params={"limit": 1}), Page[TaskView])
        rest = await caller.get(f"/api/v1/runs/{task.run_id}/tasks", params={"cursor": tasks.next_cursor})

        no_more = await caller.get(f"/api/v1/runs/{task.run_id}/tasks", params={"q": "state:failed", "count": "exact"})

    assert run.task_states == {"SUCCEEDED": 1}
    assert (no_more.json()["items"], no_more.json()["count"]) == ([], {"value": 0, "at_least": False})
    assert [one.id for one in tasks.items] == [task.id]
    assert read(rest, Page[TaskView]).items == []
