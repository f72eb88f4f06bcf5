"""Whoever prefers to wait hears of a run's end when it comes, and nobody asks the store in a loop for them."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.api.http.preferences import seconds_to_wait
from mainspring.api.live.transitions import Live
from mainspring.protocol.rest.runs import RunView
from tests.api.office import Office, read, running_task, until
from tests.host.hall import Hand

WAIT = {"Prefer": "wait=30"}


async def test_a_run_is_answered_when_it_is_over(office: Office) -> None:
    caller = await office.admin("acme")
    async with office.led() as leader:
        hand, task = await running_task(office, caller, leader)
        waiting = [asyncio.create_task(caller.get(f"/api/v1/runs/{task.run_id}", headers=WAIT)) for _ in range(5)]
        await until(lambda: is_followed(office))
        followed_by = followers(office)
        assert task.attempt_id is not None
        await hand.finish(task.attempt_id)
        answers = await asyncio.gather(*waiting)

    assert {read(answer, RunView).state for answer in answers} == {"SUCCEEDED"}
    assert {answer.headers["preference-applied"] for answer in answers} == {"wait=30"}
    assert read(answers[0], RunView).task_states == {"SUCCEEDED": 1}
    assert followed_by == 1


async def test_a_submission_is_answered_when_the_run_is_over(office: Office) -> None:
    caller = await office.admin("acme")
    async with office.led() as leader:
        hand = await Hand("w1", leader, "s1").welcome()
        await caller.post("/api/v1/jobs", json={"name": "noop", "tasks": [{"name": "only"}]})
        submitting = asyncio.create_task(caller.post("/api/v1/runs", json={"job": "noop"}, headers=WAIT))
        await hand.finish((await hand.next_task()).attempt)
        answer = await submitting

    assert (answer.status_code, read(answer, RunView).state) == (201, "SUCCEEDED")


async def test_a_run_that_is_over_or_takes_longer_is_answered_as_it_is(office: Office) -> None:
    caller = await office.admin("acme")
    async with office.led() as leader:
        hand, task = await running_task(office, caller, leader)
        still = await caller.get(f"/api/v1/runs/{task.run_id}", headers={"Prefer": "wait=1"})
        assert task.attempt_id is not None
        await hand.finish(task.attempt_id)
        over = await caller.get(f"/api/v1/runs/{task.run_id}", headers=WAIT)

    assert (read(still, RunView).state, still.headers["preference-applied"]) == ("RUNNING", "wait=1")
    assert read(over, RunView).state == "SUCCEEDED"


async def test_who_waits_is_let_go_when_the_server_ends(office: Office) -> None:
    caller = await office.admin("acme")
    async with office.led() as leader:
        _, task = await running_task(office, caller, leader)
        waiting = asyncio.create_task(caller.get(f"/api/v1/runs/{task.run_id}", headers=WAIT))
        await until(lambda: is_followed(office))

        office.front._live.end_followers()

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
def test_how_long_somebody_wants_to_wait(said: str | None, seconds: int) -> None:
    assert seconds_to_wait(said) == seconds


async def is_followed(office: Office) -> bool:
    """Whether anybody follows what happens."""
    return followers(office) > 0


def followers(office: Office) -> int:
    """How many follow what happens."""
    live = office.services.live
    assert isinstance(live, Live)
    return len(live._followers)
