"""The virtual worker inside the server's process: a real state machine, without processes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from mainspring.protocol.wire import (
    Answer,
    Credit,
    FromWorker,
    Heartbeat,
    Outcome,
    Recall,
    Received,
    Register,
    Result,
    Started,
    Stop,
    ToWorker,
    Verdict,
    Welcome,
)
from mainspring.simulation.inprocess.virtual_time import VirtualClock
from mainspring.simulation.virtual_worker import BEAT_SECONDS, VirtualWorker
from tests.worker.message_builders import OFFER, assign

CLOCK = VirtualClock()


class Line:
    """The server's end of a link."""

    def __init__(self, hello: Register) -> None:
        self.hello = hello
        self.closed = False
        self.received: list[FromWorker] = []
        self._waiting: list[ToWorker] = []
        self._wakeup = asyncio.Event()

    def say(self, *messages: ToWorker) -> None:
        self._waiting += messages
        self._wakeup.set()

    def close(self) -> None:
        self.closed = True
        self._wakeup.set()

    async def next(self) -> list[ToWorker]:
        await self._wakeup.wait()
        self._wakeup.clear()
        messages, self._waiting = self._waiting, []
        return messages


class Counter:
    """A fake server where the worker registers."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def open_link(self, hello: Register) -> Line:
        self.lines.append(Line(hello))
        return self.lines[-1]

    def receive(self, link: Line, messages: Sequence[FromWorker]) -> None:
        link.received += messages


async def opened(worker: VirtualWorker, counter: Counter) -> tuple[asyncio.Task[None], Line]:
    """Start a worker with a session and credit."""
    serving = asyncio.create_task(worker.serve(counter))
    await asyncio.sleep(0)
    line = counter.lines[-1]
    line.say(Welcome(line.hello.session), Credit(100))
    await CLOCK.sleep(0.01)
    return serving, line


async def test_it_registers_with_name_and_resources() -> None:
    """With a new session each time."""
    worker, counter = VirtualWorker("w1", OFFER, CLOCK, {"disk": "ssd"}), Counter()
    for _ in range(2):
        serving, line = await opened(worker, counter)
        line.close()
        await serving

    first, second = (line.hello for line in counter.lines)
    assert (first.worker, first.offer, first.labels) == ("w1", OFFER, {"disk": "ssd"})
    assert first.session != second.session


async def test_its_tasks_succeed_at_once_and_in_order() -> None:
    """Received, then start and result of each."""
    worker, counter = VirtualWorker("w1", OFFER, CLOCK), Counter()
    serving, line = await opened(worker, counter)
    line.say(assign("lease", "a", "b"))
    await CLOCK.sleep(0.01)

    assert line.received == [
        Received(("a", "b")),
        Started("a"), Result("a", Outcome.SUCCEEDED, "null"),
        Started("b"), Result("b", Outcome.SUCCEEDED, "null"),
    ]  # fmt: skip
    assert worker.done == 2
    serving.cancel()


async def test_it_sends_a_heartbeat_every_five_seconds() -> None:
    """LIV-1: also when idle."""
    worker, counter = VirtualWorker("w1", OFFER, CLOCK), Counter()
    serving, line = await opened(worker, counter)
    await CLOCK.sleep(10 * BEAT_SECONDS)

    assert 9 <= line.received.count(Heartbeat()) <= 10
    serving.cancel()


async def test_it_keeps_results_until_acknowledged() -> None:
    """The next session lists and resends them."""
    worker, counter = VirtualWorker("w1", OFFER, CLOCK), Counter()
    serving, line = await opened(worker, counter)
    line.say(assign("lease", "a", "b"))
    await CLOCK.sleep(0.01)
    line.say(Answer("a", Verdict.APPLIED))
    await CLOCK.sleep(0.01)
    line.close()
    await serving

    serving, line = await opened(worker, counter)
    assert line.hello.holds == ("b",)
    assert line.received == [Result("b", Outcome.SUCCEEDED, "null")]
    assert worker.done == 2
    serving.cancel()


async def test_it_answers_recalls_and_stops() -> None:
    """Also of unknown attempts."""
    worker, counter = VirtualWorker("w1", OFFER, CLOCK), Counter()
    serving, line = await opened(worker, counter)
    line.say(Recall(("x",)), Stop("y", "not yours", 0.0))
    await CLOCK.sleep(0.01)

    assert [type(message).__name__ for message in line.received] == ["Returned", "Returned"]
    serving.cancel()
