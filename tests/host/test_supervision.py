"""Supervision of background loops: failures, backoff, cancellation, the steps of a pass."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from mainspring.background import BackgroundLoops, Steps, code_of
from mainspring.protocol.errors import Broken, Fenced, Unavailable
from tests.host.host_harness import HostHarness
from tests.host.test_background import fail, failures_in


async def test_a_loop_that_returns_has_failed(harness: HostHarness) -> None:
    background = BackgroundLoops(harness.clock)

    async def returns() -> None:
        return

    with capture_logs() as logs:
        async with background.running({"short": returns}):
            await harness.wait(0.5)
    assert [(one["loop"], one["code"]) for one in failures_in(logs)] == [("short", "broken")]


async def test_a_loop_may_return_after_its_end_event(harness: HostHarness) -> None:
    background = BackgroundLoops(harness.clock)
    ending = asyncio.Event()

    async def ends() -> None:
        await ending.wait()

    supervised = asyncio.create_task(background.supervise("ends", ends, until=ending))
    await harness.wait(60.0)
    ending.set()
    await supervised
    assert background.failures == {"ends": 0}


async def test_a_loop_in_backoff_ends_at_once(harness: HostHarness) -> None:
    """A stopping server does not wait for a backoff."""
    background = BackgroundLoops(harness.clock)
    ending = asyncio.Event()
    supervised = asyncio.create_task(background.supervise("fails", fail, until=ending))
    await harness.wait(20.0)
    began = harness.clock.monotonic()
    ending.set()
    await supervised
    assert harness.clock.monotonic() < began + 0.1


async def test_cancellation_is_not_a_failure(harness: HostHarness) -> None:
    background = BackgroundLoops(harness.clock)
    with capture_logs() as logs:
        async with background.running({"sleeps": lambda: harness.clock.sleep(1_000.0), "fails": fail}):
            await harness.wait(0.5)
    assert [one["loop"] for one in failures_in(logs)] == ["fails"]
    assert background.failing() == []


async def test_an_error_while_a_loop_is_stopped_is_logged(harness: HostHarness) -> None:
    background = BackgroundLoops(harness.clock)

    async def stumbles() -> None:
        try:
            await harness.clock.sleep(1_000.0)
        finally:
            await fail()

    with capture_logs() as logs:
        async with background.running({"stumbles": stumbles}):
            await harness.wait(0.5)
    (stumbled,) = logs
    assert (stumbled["event"], stumbled["loop"]) == ("background.stop_failed", "stumbles")
    assert background.failures == {"stumbles": 0}


async def test_a_cancellation_from_within_is_a_failure(harness: HostHarness) -> None:
    """A task that the loop awaits was cancelled, not the loop itself."""
    background = BackgroundLoops(harness.clock)

    async def waits() -> None:
        inner = asyncio.create_task(harness.clock.sleep(1_000.0))
        await harness.clock.sleep(0.1)
        inner.cancel()
        await inner

    async with background.running({"waits": waits}):
        await harness.wait(0.5)
    assert background.failures == {"waits": 1}


async def test_a_loop_of_an_ended_term_is_not_restarted(harness: HostHarness) -> None:
    background = BackgroundLoops(harness.clock)

    async def fenced() -> None:
        raise Fenced("another host leads")

    await asyncio.wait_for(background.supervise("fenced", fenced, shard="pool"), 1.0)
    assert background.failures == {"fenced": 0}


async def test_consecutive_failures_are_counted_per_shard(harness: HostHarness) -> None:
    background = BackgroundLoops(harness.clock)
    bad = asyncio.create_task(background.supervise("intake", fail, shard="bad"))
    good = asyncio.create_task(background.supervise("intake", lambda: harness.clock.sleep(1_000.0), shard="good"))
    await harness.wait(20.0)
    assert [(one.name, one.shard) for one in background.failing()] == [("intake", "bad")]
    for one in (bad, good):
        one.cancel()
    await asyncio.gather(bad, good, return_exceptions=True)


async def test_all_steps_of_a_pass_are_tried() -> None:
    done: list[str] = []

    async def step(name: str) -> None:
        done.append(name)

    steps = Steps()
    await steps.attempt(step("a"))
    await steps.attempt(fail())
    await steps.attempt(step("b"))
    with pytest.raises(Broken):
        steps.check()
    await steps.attempt(fail())
    with pytest.raises(ExceptionGroup) as group:
        steps.check()
    assert (done, code_of(group.value)) == (["a", "b"], "broken")


async def test_a_store_outage_ends_a_pass() -> None:
    async def away() -> None:
        raise Unavailable("the store is gone")

    with pytest.raises(Unavailable):
        await Steps().attempt(away())
