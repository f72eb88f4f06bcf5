"""Lists of artifacts (WRK-11): stored with the result that names them, or not at all."""

from __future__ import annotations

from datetime import timedelta

import httpx2

from mainspring.api.auth.tokens import make_attempt_token
from mainspring.protocol.rest.artifacts import ArtifactView
from mainspring.protocol.rest.runs import Page
from mainspring.protocol.wire import Answer, Artifact, Outcome, Result, Verdict
from tests.api.api_harness import SECRET, ApiHarness, problem, read, running_task, submit
from tests.host.host_harness import ScriptedWorker

HASH = "ab" * 32


def left(path: str = "a.csv", *, keep_seconds: int = 0) -> Artifact:
    """An artifact in a worker's result."""
    return Artifact(path, 7, HASH, f"file:///srv/{path}", keep_seconds)


async def ends(
    hand: ScriptedWorker, attempt: str, *artifacts: Artifact, outcome: Outcome = Outcome.SUCCEEDED
) -> Verdict:
    """Return the server's verdict on the end of an attempt."""
    hand.send(Result(attempt, outcome, "1", '{"message": "no"}' if outcome is Outcome.FAILED else None, artifacts))
    return (await hand.expect(Answer)).verdict


async def listed(caller: httpx2.AsyncClient, path: str, **params: str | int) -> list[ArtifactView]:
    """Return the listed artifacts."""
    page: Page[ArtifactView] = read(await caller.get(f"/api/v1/{path}/artifacts", params=params), Page[ArtifactView])
    return page.items


async def test_artifacts_of_an_applied_result_are_listed_by_run_and_task(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        hand, task = await running_task(harness, caller, leader)
        assert task.attempt_id is not None
        before = await listed(caller, f"runs/{task.run_id}")
        verdict = await ends(hand, task.attempt_id, left("b.csv"), left("a/ü.csv"))
        again = await ends(hand, task.attempt_id, left("late.csv"))
        of_run = await listed(caller, f"runs/{task.run_id}")
        of_task = await listed(caller, f"tasks/{task.id}")
        of_name = await listed(caller, f"runs/{task.run_id}", task=task.name)
        of_other = await listed(caller, f"runs/{task.run_id}", task="another")

    assert (verdict, again) == (Verdict.APPLIED, Verdict.ALREADY)
    assert (before, of_other) == ([], [])
    assert [one.path for one in of_run] == ["a/ü.csv", "b.csv"]
    assert of_run == of_task == of_name
    one = of_run[1]
    assert (one.task, one.attempt_id, one.tenant, one.succeeded) == (task.name, task.attempt_id, "acme", True)
    assert (one.size_bytes, one.sha256, one.location) == (7, HASH, "file:///srv/b.csv")
    assert (one.kept_until, one.is_expired) == (None, False)


async def test_artifacts_of_a_failed_attempt_are_listed_on_request(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        hand, task = await running_task(harness, caller, leader)
        assert task.attempt_id is not None
        await ends(hand, task.attempt_id, left("why.txt"), outcome=Outcome.FAILED)
        usual = await listed(caller, f"tasks/{task.id}")
        of_it = await listed(caller, f"tasks/{task.id}", attempt=task.attempt_id)
        of_all = await listed(caller, f"tasks/{task.id}", attempt="*")

    assert usual == []
    assert of_it == of_all
    assert [(one.path, one.succeeded) for one in of_it] == [("why.txt", False)]


async def test_artifacts_of_another_workers_attempt_are_not_listed(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        _, task = await running_task(harness, caller, leader)
        assert task.attempt_id is not None
        thief = await ScriptedWorker("w2", leader, "s2").welcome()
        stolen = await ends(thief, task.attempt_id, left("stolen"))
        after = await listed(caller, f"tasks/{task.id}", attempt="*")

    assert stolen is not Verdict.APPLIED
    assert after == []


async def test_a_path_outside_the_folder_is_rejected_with_its_result(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        hand, task = await running_task(harness, caller, leader)
        assert task.attempt_id is not None
        verdict = await ends(hand, task.attempt_id, left("../../etc/passwd"))
        after = await listed(caller, f"tasks/{task.id}", attempt="*")
        now = (await caller.get(f"/api/v1/tasks/{task.id}")).json()

    assert verdict is Verdict.REJECTED
    assert after == []
    assert now["state"] == "QUARANTINED"
    assert "segment" in now["because"]


async def test_an_artifact_expires_after_the_end_of_its_run(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        hand, task = await running_task(harness, caller, leader)
        assert task.attempt_id is not None
        await ends(hand, task.attempt_id, left(keep_seconds=3600))
        (fresh,) = await listed(caller, f"runs/{task.run_id}")
        harness.clock.ahead += 3601
        (old,) = await listed(caller, f"runs/{task.run_id}")

    assert fresh.kept_until is not None
    assert (fresh.is_expired, old.is_expired) == (False, True)


async def test_a_long_list_has_pages(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    folder = "ü" * 120
    names = [f"{folder}/{folder}/{folder}/{number}" for number in range(5)]
    async with harness.led() as leader:
        hand, task = await running_task(harness, caller, leader)
        assert task.attempt_id is not None
        await ends(hand, task.attempt_id, *map(left, names))
        found: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            answer = await caller.get(
                f"/api/v1/runs/{task.run_id}/artifacts", params={"limit": 2, **({"cursor": cursor} if cursor else {})}
            )
            page: Page[ArtifactView] = read(answer, Page[ArtifactView])
            found += [one.path for one in page.items]
            cursor = page.next_cursor
        many = await caller.get(f"/api/v1/runs/{task.run_id}/artifacts", params=[("task", "x")] * 101)

    assert found == names
    problem(many, 422)


async def test_an_attempt_lists_artifacts_of_its_own_run_only(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        hand, task = await running_task(harness, caller, leader)
        assert task.attempt_id is not None
        other = await submit(caller)
        await hand.next_task()
        until = await harness.store.time() + timedelta(hours=1)
        attempt = harness.caller(make_attempt_token(SECRET, task.attempt_id, until))
        own = await attempt.get(f"/api/v1/runs/{task.run_id}/artifacts")
        foreign = await attempt.get(f"/api/v1/runs/{other.id}/artifacts")
        await ends(hand, task.attempt_id)
        over = await attempt.get(f"/api/v1/runs/{task.run_id}/artifacts")

    assert own.is_success, own.text
    problem(foreign, 404)
    problem(over, 401)
