"""`Prefer: wait` responds when a run ends, without polling the store."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.api.http.preferences import wait_seconds_of
from mainspring.api.live.transitions import TransitionFeed
from mainspring.protocol.rest.runs import RunView
from tests.api.api_harness import ApiHarness, read, running_task, until
from tests.host.host_harness import ScriptedWorker

WAIT = {"Prefer": "wait=30"}


async def test_a_request_waits_until_the_run_has_ended(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        hand, task = await running_task(harness, caller, leader)
        waiting = [asyncio.create_task(caller.get(f"/api/v1/runs/{task.run_id}", headers=WAIT)) for _ in range(5)]
        await until(lambda: is_followed(harness))
        followed_by = followers(harness)
        assert task.attempt_id is not None
        await hand.finish(task.attempt_id)
        answers = await asyncio.gather(*waiting)

    assert {read(answer, RunView).state for answer in answers} == {"SUCCEEDED"}
    assert {answer.headers["preference-applied"] for answer in answers} == {"wait=30"}
    assert read(answers[0], RunView).task_states == {"SUCCEEDED": 1}
    assert followed_by == 1


async def test_a_submission_waits_until_the_run_has_ended(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        hand = await ScriptedWorker("w1", leader, "s1").welcome()
        await caller.post("/api/v1/jobs", json={"name": "noop", "tasks": [{"name": "only"}]})
        submitting = asyncio.create_task(caller.post("/api/v1/runs", json={"job": "noop"}, headers=WAIT))
        await hand.finish((await hand.next_task()).attempt)
        answer = await submitting

    assert (answer.status_code, read(answer, RunView).state) == (201, "SUCCEEDED")


async def test_an_ended_run_or_a_timeout_returns_the_current_state(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        hand, task = await running_task(harness, caller, leader)
        still = await caller.get(f"/api/v1/runs/{task.run_id}", headers={"Prefer": "wait=1"})
        assert task.attempt_id is not None
        await hand.finish(task.attempt_id)
        over = await caller.get(f"/api/v1/runs/{task.run_id}", headers=WAIT)

    assert (read(still, RunView).state, still.headers["preference-applied"]) == ("RUNNING", "wait=1")
    assert read(over, RunView).state == "SUCCEEDED"


async def test_a_stopping_server_releases_waiting_requests(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        _, task = await running_task(harness, caller, leader)
        waiting = asyncio.create_task(caller.get(f"/api/v1/runs/{task.run_id}", headers=WAIT))
        await until(lambda: is_followed(harness))

        harness.services.live.end_followers()

        async with asyncio.timeout(10):
            assert read(await waiting, RunView).state == "RUNNING"


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (None, 0),
        ("", 0),
        ("wait=30", 30),
        ('respond-async, Wait = "7"; x=1', 7),
        ("wait=999999", 60),
        ("wait=-1", 0),
        ("wait=soon", 0),
        ("await=9", 0),
    ],
)
def test_the_wait_preference_is_parsed(said: str | None, seconds: int) -> None:
    assert wait_seconds_of(said) == seconds


async def is_followed(harness: ApiHarness) -> bool:
    """Return whether there are followers."""
    return followers(harness) > 0


def followers(harness: ApiHarness) -> int:
    """Return the number of followers."""
    live = harness.services.live
    assert isinstance(live, TransitionFeed)
    return len(live._followers)
