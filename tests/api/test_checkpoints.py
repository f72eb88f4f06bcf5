"""A checkpoint is replaced only if its version is still the expected one (WRK-7)."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import httpx2
import pytest

from mainspring.api.auth.tokens import make_attempt_token
from mainspring.core.work.work import MAX_CHECKPOINT_BYTES
from mainspring.protocol.rest.runs import TaskView
from tests.api.api_harness import SECRET, ApiHarness, pointers, problem, running_task, submit


def path(task: TaskView) -> str:
    """Return the path of a task's checkpoint."""
    return f"/api/v1/tasks/{task.id}/checkpoint"


async def attempt(harness: ApiHarness, attempt_id: str) -> httpx2.AsyncClient:
    """Return a client with the token of an attempt."""
    until = await harness.store.time() + timedelta(hours=1)
    return harness.caller(make_attempt_token(SECRET, attempt_id, until))


async def test_a_checkpoint_is_replaced_by_a_client_with_its_version(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        _, task = await running_task(harness, caller, leader)

        first = await caller.put(path(task), json={"row": 1}, headers={"If-None-Match": "*"})
        seen = await caller.get(path(task))
        second = await caller.put(path(task), json={"row": 2}, headers={"If-Match": seen.headers["etag"]})
        late = await caller.put(path(task), json={"row": 3}, headers={"If-Match": seen.headers["etag"]})
        not_first = await caller.put(path(task), json={"row": 4}, headers={"If-None-Match": "*"})
        kept = await caller.get(path(task))
        unchanged = await caller.get(path(task), headers={"If-None-Match": kept.headers["etag"]})
        whatever = await caller.put(path(task), content=b"null")

    assert first.headers["etag"] == seen.headers["etag"]
    assert seen.json()["document"] == {"row": 1}
    assert seen.json()["attempt_id"] == task.attempt_id
    assert second.json()["changed"] is True
    assert problem(late, 412)["code"] == problem(not_first, 412)["code"] == "outdated"
    assert (kept.json()["document"], kept.headers["etag"]) == ({"row": 2}, second.headers["etag"])
    assert unchanged.status_code == 304
    assert whatever.is_success


async def test_one_of_many_concurrent_replacements_wins(harness: ApiHarness) -> None:
    """Late requests fail, even if only by a moment."""
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        _, task = await running_task(harness, caller, leader)
        none = {"If-None-Match": "*"}

        answers = await asyncio.gather(*(caller.put(path(task), json=number, headers=none) for number in range(8)))
        kept = await caller.get(path(task))

    (winner,) = [number for number, answer in enumerate(answers) if answer.is_success]
    assert sorted(answer.status_code for answer in answers) == [200, *[412] * 7]
    assert kept.json()["document"] == winner


async def test_an_attempt_saves_its_own_checkpoint_only(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        hand, task = await running_task(harness, caller, leader)
        assert task.attempt_id is not None
        await submit(caller)
        another = await hand.next_task()

        saved = await (await attempt(harness, task.attempt_id)).put(path(task), json=[1])
        foreign = await (await attempt(harness, another.attempt)).put(path(task), json=[2])

    assert saved.is_success, saved.text
    problem(foreign, 404)


@pytest.mark.parametrize(
    ("content", "headers", "status", "expected"),
    [
        (b"{", {}, 422, [""]),
        (b"\xff", {}, 422, [""]),
        (b'{"a": "\\u0000"}', {}, 422, ["/a"]),
        (b'"' + b"x" * MAX_CHECKPOINT_BYTES + b'"', {}, 413, None),
        (b"1", {"If-Match": "7"}, 422, ["header:If-Match"]),
        (b"1", {"If-None-Match": '"7"'}, 422, ["header:If-None-Match"]),
        (b"1", {"If-Match": '"7"'}, 412, None),
        (b"1", {"If-Match": "*"}, 412, None),
    ],
)
async def test_an_invalid_checkpoint_is_rejected(
    harness: ApiHarness, content: bytes, headers: dict[str, str], status: int, expected: list[str] | None
) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        _, task = await running_task(harness, caller, leader)

        body = problem(await caller.put(path(task), content=content, headers=headers), status)

        problem(await caller.get(path(task)), 404)
    assert expected is None or pointers(body) == expected
