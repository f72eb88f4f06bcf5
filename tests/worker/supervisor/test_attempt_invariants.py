"""Invariants of attempts under random work, withdrawals, stops and crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from mainspring.protocol.wire import Outcome
from mainspring.worker.supervisor.supervisor_wire import (
    AttemptEnded,
    AttemptStarted,
    EndAttempt,
    WithdrawAttempts,
    Withdrawn,
)
from tests.worker.supervisor.harness import DEADLINE_SECONDS, SupervisorHarness

pytestmark = pytest.mark.processes

CODE = """
import os, subprocess, time

def quiet(n):
    return n

def loud(n):
    for _ in range(n % 7):
        print("call", n)

def slow(n):
    print("call", n)
    time.sleep(n % 5 / 100)
    print("call", n)

def hard(n):
    print("call", n, flush=True)
    if n % 2:
        os._exit(5)
    subprocess.Popen(["sleep", "100"])
"""
LINES: dict[str, Callable[[int], int]] = {
    "quiet": lambda n: 0,
    "loud": lambda n: n % 7,
    "slow": lambda n: 2,
    "hard": lambda n: 1,
    "shell": lambda n: 1,
}
WEIGHTS = {"quiet": 50, "loud": 30, "slow": 5, "hard": 1, "shell": 1}


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_attempt_ends_once_or_never_starts_and_has_its_own_log(
    harness: SupervisorHarness, seed: int
) -> None:
    random = Random(seed)
    await harness.start(code=CODE, children=2)
    kinds: dict[str, tuple[str, int]] = {}
    for _ in range(30):
        chosen = random.choices(list(WEIGHTS), list(WEIGHTS.values()), k=random.randint(1, 60))
        numbered = [(kind, len(kinds) + n) for n, kind in enumerate(chosen)]
        attempts = harness.launch(*[_work(kind, n) for kind, n in numbered])
        kinds |= dict(zip(attempts, numbered, strict=True))
        if random.random() < 0.5:
            harness.say(WithdrawAttempts(tuple(random.sample(attempts, min(len(attempts), 10)))))
        if random.random() < 0.5:
            harness.say(EndAttempt(random.choice(attempts), random.choice([0.0, 0.001, 0.02, 1.0])))
        if random.random() < 0.5:
            await harness.receives_more(len(harness.received))

    ended, given_back = await _all_of(harness, len(kinds))
    began = {message.attempt for message in harness.received if isinstance(message, AttemptStarted)}
    assert given_back.isdisjoint(began | ended.keys())
    for attempt, end in ended.items():
        kind, n = kinds[attempt]
        log = harness.log(attempt)
        assert set(log.splitlines()) <= {f"call {n}"}
        assert end.log_bytes == len(log)
        if end.outcome is not Outcome.STOPPED:
            assert len(log.splitlines()) == LINES[kind](n)
        if end.outcome is Outcome.FAILED:
            assert kind == "hard"


def _work(kind: str, n: int) -> dict[str, object]:
    return {"shell": f"echo call {n}"} if kind == "shell" else {"python": f"work:{kind}", "args": {"n": n}}


async def _all_of(harness: SupervisorHarness, count: int) -> tuple[dict[str, AttemptEnded], set[str]]:
    """Wait for all ends and withdrawals."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            received = len(harness.received)
            ends = [message for message in harness.received if isinstance(message, AttemptEnded)]
            given_back = {
                attempt
                for message in harness.received
                if isinstance(message, Withdrawn)
                for attempt in message.attempts
            }
            assert len({end.attempt for end in ends}) == len(ends)
            if len(ends) + len(given_back) == count:
                return {end.attempt: end for end in ends}, given_back
            await harness.receives_more(received)
