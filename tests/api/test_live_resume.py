"""Streams resume with the last id, without gaps or duplicates (OBS-4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import httpx2
import msgspec
import pytest

from mainspring.api.live import transitions as live_module
from mainspring.protocol.rest.runs import EventLine
from mainspring.store.ports.store import Store
from tests.api.api_server import DEADLINE_SECONDS, ApiServers, Server
from tests.api.test_live_stream import Event, events
from tests.store.builders import JOB, Leader, a_run, a_transition

Step = tuple[str, int]
"""A task and the number of a transition."""


class Story:
    """Shards that commit transitions in small batches, in turn."""

    def __init__(self, leaders: dict[str, Leader]) -> None:
        self._leaders = leaders
        self._random = Random(7)
        self.reported: dict[str, list[Step]] = {shard: [] for shard in leaders}

    @classmethod
    async def of(cls, store: Store, *shards: str) -> Story:
        """Acquire these shards."""
        return cls({shard: await Leader.of(store, shard) for shard in shards})

    async def go_on(self, steps: int) -> None:
        """Commit this many transitions."""
        while steps > 0:
            shard = self._random.choice(sorted(self._leaders))
            (task,) = await self._leaders[shard].adopt(a_run(shard=shard))
            more = [a_transition(task, seq=seq) for seq in range(2, self._random.randint(2, 9))]
            await self._leaders[shard].commit(transitions=more)
            self.reported[shard] += [(task.id, seq) for seq in range(1, len(more) + 2)]
            steps -= len(more) + 1

    def total(self) -> int:
        """Return the number of transitions."""
        return sum(map(len, self.reported.values()))

    def as_heard(self, heard: list[Step]) -> dict[str, list[Step]]:
        """Group received transitions by shard, in order."""
        shard_of = {step: shard for shard, steps in self.reported.items() for step in steps}
        return {shard: [step for step in heard if shard_of[step] == shard] for shard in self.reported}


class Listener:
    """Follows the stream, and resumes with its last id."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http
        self.heard: list[Step] = []
        self.last_id = ""
        self.visits = 0

    async def listen(self, most: int) -> None:
        """Receive at most this many transitions; returns early if the stream ends."""
        headers = {"Last-Event-ID": self.last_id} if self.last_id else {}
        self.visits += 1
        async with self._http.stream("GET", "/api/v1/events", headers=headers) as answer:
            async for event in events(answer):
                self._take(event)
                if len(self.heard) >= most:
                    return

    def _take(self, event: Event) -> None:
        self.last_id = event.id
        if event.event == "transition":
            transition = event.transition()
            self.heard.append((transition.task_id, transition.seq))


@pytest.fixture
async def api_servers(tmp_path: Path) -> AsyncIterator[ApiServers]:
    """A store without servers."""
    async with ApiServers(tmp_path) as api_servers:
        yield api_servers


async def begin(api_servers: ApiServers) -> tuple[Story, Server]:
    """Two shards with transitions, and a server that leads neither."""
    return await Story.of(api_servers.store, "cpu", "gpu"), await api_servers.server()


async def test_a_reconnected_client_gets_no_gaps_or_duplicates(api_servers: ApiServers) -> None:
    """It disconnects in the middle, and a hundred transitions happen in two shards, some after its return."""
    story, server = await begin(api_servers)
    async with server.http() as http, asyncio.timeout(DEADLINE_SECONDS):
        listener = Listener(http)
        await listener.listen(0)
        for _ in range(4):
            await story.go_on(100)
            listening = asyncio.create_task(listener.listen(story.total() - 30))
            await story.go_on(20)
            await listening
        await listener.listen(story.total())

    assert story.as_heard(listener.heard) == story.reported


async def test_a_disconnected_slow_client_resumes_without_a_gap(
    api_servers: ApiServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "_MAX_WAITING", 2)
    monkeypatch.setattr(live_module, "MAX_BATCH", 5)
    story, server = await begin(api_servers)
    async with server.http() as http, asyncio.timeout(DEADLINE_SECONDS):
        listener = Listener(http)
        await listener.listen(0)
        while listener.visits < 4:
            listening = asyncio.create_task(listener.listen(2**31))
            while not listening.done():
                await story.go_on(50)
                await asyncio.wait({listening}, timeout=0.05)
        while len(listener.heard) < story.total():
            await listener.listen(story.total())

    assert story.as_heard(listener.heard) == story.reported


async def test_a_stream_without_follow_ends_at_the_current_position(api_servers: ApiServers) -> None:
    story, server = await begin(api_servers)
    async with server.http() as http:
        begun = await lines(http, {"follow": "false", "format": "jsonl"})
        await story.go_on(50)
        since = await lines(http, {"follow": "false", "after": begun[-1].cursor}, accept="application/x-ndjson")
        rest = await lines(http, {"follow": "false", "after": since[29].cursor, "format": "jsonl"})
        everything = await lines(http, {"follow": "false", "after": "", "format": "jsonl"})

    assert [line.event for line in begun] == ["heartbeat"]
    assert story.as_heard(steps(since)) == story.as_heard(steps(everything)) == story.reported
    assert sorted(steps(since)[:30] + steps(rest)) == sorted(steps(since))
    assert since[-1].event == "heartbeat"


async def test_a_stream_is_filtered_by_job_and_other_fields(api_servers: ApiServers) -> None:
    story, server = await begin(api_servers)
    await story.go_on(20)
    async with server.http() as http:
        past = {"follow": "false", "after": "", "format": "jsonl"}
        all_of_job = await lines(http, {**past, "job": f"{JOB.name[:3]}*"})
        of_another = await lines(http, {**past, "q": "job:another"})
        of_task = await lines(http, {**past, "q": f"task:{story.reported['cpu'][0][0]} tenant:acme"})
        of_state = await lines(http, {**past, "q": "state:succeeded"})

    assert story.as_heard(steps(all_of_job)) == story.reported
    assert steps(of_another) == steps(of_state) == []
    assert {task for task, _ in steps(of_task)} == {story.reported["cpu"][0][0]}


async def test_the_job_of_a_run_is_looked_up_once(api_servers: ApiServers, monkeypatch: pytest.MonkeyPatch) -> None:
    story, server = await begin(api_servers)
    await story.go_on(30)
    runs = {
        task_id.replace("task_", "run_").partition(".")[0] for steps in story.reported.values() for task_id, _ in steps
    }
    find_run, asked = api_servers.store.find_run, []

    async def counted(run_id: str) -> object:
        asked.append(run_id)
        return await find_run(run_id)

    monkeypatch.setattr(api_servers.store, "find_run", counted)
    async with server.http() as http:
        past = {"follow": "false", "after": "", "job": JOB.name}
        await asyncio.gather(*(http.get("/api/v1/events", params=past) for _ in range(5)))

    assert sorted(asked) == sorted(runs)


async def lines(http: httpx2.AsyncClient, params: dict[str, str], accept: str = "*/*") -> list[EventLine]:
    """Return the lines of a finite response."""
    answer = await http.get("/api/v1/events", params=params, headers={"Accept": accept})
    assert answer.headers["content-type"].startswith("application/x-ndjson"), answer.text
    return [msgspec.json.decode(line, type=EventLine) for line in answer.content.splitlines()]


def steps(lines: list[EventLine]) -> list[Step]:
    """Return the transitions."""
    return [(line.transition.task_id, line.transition.seq) for line in lines if line.transition is not None]
