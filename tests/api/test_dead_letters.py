"""Dead letters are listed and retried; runs are retried and rerun; tasks are extended (RTY-5, DAG-7)."""

from __future__ import annotations

import msgspec

from mainspring.host.loop import Leader
from mainspring.protocol.rest.runs import ActionResult, Page, RunView, TaskView
from mainspring.protocol.rest.schedules import DeadLetterView, RetryResult
from mainspring.protocol.wire import Answer, Outcome, Result
from mainspring.shard.events import RunsExpired
from tests.api.api_harness import ApiHarness, all_pages, pointers, problem, read, running_task, submit, until
from tests.host.host_harness import ScriptedWorker

ONCE: dict[str, object] = {
    "name": "etl",
    "tasks": [{"name": "load", "max_attempts": 1}, {"name": "after", "needs": [{"task": "load"}]}],
}
ERROR = '{"message": "no such table"}'
PATH = "/api/v1/dead-letters"


async def _fail(hand: ScriptedWorker) -> str:
    """Fail the next task permanently; return its id."""
    assignment = await hand.next_task()
    hand.send(Result(assignment.attempt, Outcome.FAILED, None, ERROR))
    await hand.expect(Answer)
    return assignment.task


async def _move_to_history(harness: ApiHarness, leader: Leader, run_id: str) -> None:
    """Move an ended run to history."""
    leader.inbox.put(RunsExpired(run_ids=(run_id,)))

    async def is_there() -> bool:
        found = await harness.store.find_run(run_id)
        return found is not None and found.in_history

    await until(is_there)


async def test_dead_letters_are_listed_and_retried(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        hand = await ScriptedWorker("w1", leader, "s1").welcome()
        run = await submit(caller, ONCE, params={"day": 1})
        task_id = await _fail(hand)

        (dead,) = read(await caller.get(PATH, params={"job": "etl"}), Page[DeadLetterView]).items
        revived = read(await caller.post(f"{PATH}/{task_id}/retry", json={"why": "fixed"}), RetryResult)
        again = await hand.next_task()

    assert (dead.task_id, dead.run_id, dead.job, dead.task) == (task_id, run.id, "etl", "load")
    assert (dead.state, dead.tries, dead.in_history) == ("FAILED", 1, False)
    assert msgspec.json.decode(dead.error)["message"] == "no such table"
    assert (revived.run_id, revived.is_new_run) == (run.id, False)
    assert again.task == task_id
    assert read(await caller.get(PATH), Page[DeadLetterView]).items == []


async def test_a_dead_letter_in_history_is_rerun_as_a_linked_run(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        hand = await ScriptedWorker("w1", leader, "s1").welcome()
        run = await submit(caller, ONCE, params={"day": 1}, priority="P1")
        task_id = await _fail(hand)
        await _move_to_history(harness, leader, run.id)

        (dead,) = read(await caller.get(PATH), Page[DeadLetterView]).items
        key = {"idempotency-key": "once"}
        first, second = [read(await caller.post(f"{PATH}/{task_id}/retry", headers=key), RetryResult) for _ in range(2)]

    assert dead.in_history is True
    assert first.is_new_run is True
    assert second.run_id == first.run_id
    new = read(await caller.get(f"/api/v1/runs/{first.run_id}"), RunView)
    assert (new.linked_run, new.priority, new.job) == (run.id, "P1", "etl")
    assert msgspec.json.decode(new.params) == {"day": 1}


async def test_dead_letters_are_read_page_by_page_and_by_tenant(harness: ApiHarness) -> None:
    acme, globex = await harness.admin("acme"), await harness.admin("globex")
    async with harness.led() as leader:
        hand = await ScriptedWorker("w1", leader, "s1").welcome()
        made = []
        for caller in (acme, acme, acme, globex):
            await submit(caller, ONCE)
            made.append(await _fail(hand))

    pages = [page async for page in all_pages(acme, PATH, DeadLetterView, limit=2)]

    assert [dead.task_id for page in pages for dead in page] == made[2::-1]
    problem(await acme.post(f"{PATH}/{made[3]}/retry"), 404)


async def test_only_failed_tasks_are_dead_letters(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        _, task = await running_task(harness, caller, leader)

        answer = await caller.post(f"{PATH}/{task.id}/retry")

    assert "RUNNING" in problem(answer, 422)["errors"][0]["detail"]


async def test_a_run_is_retried_from_its_failure_or_rerun_completely(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        hand = await ScriptedWorker("w1", leader, "s1").welcome()
        run = await submit(caller, ONCE)
        path = f"/api/v1/runs/{run.id}"
        task_id = await _fail(hand)

        retried = read(await caller.post(f"{path}/retry", json={"why": "fixed"}), ActionResult)
        again = await hand.next_task()
        rerun = read(await caller.post(f"{path}/rerun"), RetryResult)
        missing = await caller.post("/api/v1/runs/run_000000000000-0000000000000000/rerun")

    assert retried.changed is True
    assert again.task == task_id
    assert rerun.is_new_run is True
    assert read(await caller.get(f"/api/v1/runs/{rerun.run_id}"), RunView).linked_run == run.id
    problem(missing, 404)


async def test_a_running_task_is_extended(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        hand = await ScriptedWorker("w1", leader, "s1").welcome()
        await submit(caller, {"name": "short", "tasks": [{"name": "only", "timeout_seconds": 60}]})
        assignment = await hand.next_task()
        path = f"/api/v1/tasks/{assignment.task}"

        extended = read(await caller.post(f"{path}/extend", json={"seconds": 600, "why": "slow disk"}), ActionResult)
        nothing = await caller.post(f"{path}/extend", json={"seconds": 0})
        await hand.finish(assignment.attempt)
        too_late = read(await caller.post(f"{path}/extend", json={"seconds": 600}), ActionResult)

    assert extended.changed is True
    assert pointers(problem(nothing, 422)) == ["/seconds"]
    assert too_late.changed is False
    assert read(await caller.get(path), TaskView).tries == 1
