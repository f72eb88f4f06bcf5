"""The stream of transitions: complete, ordered, resumable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import msgspec
import pytest

from mainspring.api.auth.principal import Role
from mainspring.api.live import transitions as live_module
from mainspring.api.live.transitions import read_cursor, write_cursor
from mainspring.core.model.task import TaskState
from mainspring.protocol.errors import Refused
from mainspring.protocol.rest.runs import TransitionView
from tests.api.api_server import DEADLINE_SECONDS, ApiServers, LinkClient, until

DONE = ["PENDING", "QUEUED", "ASSIGNED", "RUNNING", "SUCCEEDED"]


class Event(msgspec.Struct, kw_only=True):
    """One server-sent event."""

    event: str = ""
    id: str = ""
    data: str = ""

    def transition(self) -> TransitionView:
        """Return the transition of the event."""
        return msgspec.json.decode(self.data, type=TransitionView)


async def events(answer: httpx2.Response) -> AsyncIterator[Event]:
    """Parse the events of a stream."""
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield Event(**fields)
            fields = {}


async def transitions(stream: AsyncIterator[Event], wanted: int) -> list[Event]:
    """Return the next transitions."""
    found: list[Event] = []
    async with asyncio.timeout(DEADLINE_SECONDS):
        while len(found) < wanted:
            event = await anext(stream)
            if event.event == "transition":
                found.append(event)
    return found


async def do_one(api_servers: ApiServers, worker: LinkClient, tenant: str = "acme") -> str:
    """Complete a run."""
    (run,) = await api_servers.submit(tenants=[tenant])
    task = await worker.next_task()
    await worker.finish(task.attempt)
    return run.id


@pytest.fixture
async def api_servers(tmp_path: Path) -> AsyncIterator[ApiServers]:
    """A store without servers."""
    async with ApiServers(tmp_path) as api_servers:
        yield api_servers


async def test_a_follower_gets_every_new_transition(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    await server.leader()
    async with (
        server.caller() as worker,
        server.http() as http,
        http.stream("GET", "/api/v1/events") as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        stream = events(answer)
        assert (await anext(stream)).event == "heartbeat"
        run = await do_one(api_servers, worker)
        heard = [event.transition() for event in await transitions(stream, len(DONE))]
    assert [one.end for one in heard] == DONE
    assert {one.run_id for one in heard} == {run}


async def test_a_cursor_resumes_without_gaps_or_duplicates(api_servers: ApiServers) -> None:
    first = await api_servers.server("one")
    await first.leader()
    second = await api_servers.server("two")
    async with first.caller() as worker:
        async with first.http() as http, http.stream("GET", "/api/v1/events") as answer:
            stream = events(answer)
            await anext(stream)
            run = await do_one(api_servers, worker)
            before = await transitions(stream, 3)
        later = await do_one(api_servers, worker)
        headers = {"Last-Event-ID": before[-1].id}
        async with second.http() as http, http.stream("GET", "/api/v1/events", headers=headers) as answer:
            stream = events(answer)
            after = await transitions(stream, 2 + len(DONE))
            last = await do_one(api_servers, worker)
            after += await transitions(stream, len(DONE))
    heard = [(one.run_id, one.end) for one in (event.transition() for event in before + after)]
    assert heard == [(run_id, state) for run_id in (run, later, last) for state in DONE]


async def test_a_follower_gets_only_matching_and_visible_transitions(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    await server.leader()
    token = await api_servers.token(Role.VIEWER, tenant="acme")
    ended = {"state": "SUCCEEDED"}
    async with (
        server.caller() as worker,
        server.http(token) as http,
        http.stream("GET", "/api/v1/events", params=ended) as answer,
    ):
        stream = events(answer)
        await anext(stream)
        await do_one(api_servers, worker, "globex")
        mine = await do_one(api_servers, worker, "acme")
        (heard,) = await transitions(stream, 1)
    assert (heard.transition().run_id, heard.transition().end) == (mine, "SUCCEEDED")


async def test_the_tail_reads_only_while_there_are_followers(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    live = server.front.services.live
    assert isinstance(live, live_module.TransitionFeed)
    async with server.http() as http, http.stream("GET", "/api/v1/events") as answer:
        await anext(events(answer))
        await until(lambda: live._tail is not None)
    await until(lambda: live._tail is None)


async def test_a_slow_follower_is_disconnected_and_others_are_not(
    api_servers: ApiServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "_MAX_WAITING", 1)
    server = await api_servers.server()
    await server.leader()
    live = server.front.services.live
    slow, quick = live.follow(await live.now()), live.follow(await live.now())
    first = [asyncio.ensure_future(anext(one)) for one in (slow, quick)]
    heard: list[TaskState] = []

    async def listen() -> None:
        heard.extend(reported.transition.end for reported in await first[1])
        async for group in quick:
            heard.extend(reported.transition.end for reported in group)

    listening = asyncio.create_task(listen())
    async with server.caller() as worker:
        for _ in range(2):
            await do_one(api_servers, worker)
    await until(lambda: len(heard) == 2 * len(DONE))
    rest = [group async for group in slow]
    assert len(await first[0]) + sum(map(len, rest)) < 2 * len(DONE)
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    await quick.aclose()  # type: ignore[attr-defined]


async def test_a_stopping_server_ends_its_streams(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    async with server.http() as http, http.stream("GET", "/api/v1/events") as answer:
        stream = events(answer)
        await anext(stream)
        server.stop()
        async with asyncio.timeout(DEADLINE_SECONDS):
            assert [event async for event in stream if event.event == "transition"] == []


def test_a_cursor_is_parsed_as_formatted() -> None:
    places = {"default": (12, 3), "a,b:c": (0, -1)}
    assert read_cursor(write_cursor(places)) == places
    assert read_cursor("") == {}


@pytest.mark.parametrize(
    "text", ["x", "x:y", "default:1", "default:1.x", "default:-2.0", f"default:{2**63}.0", ",", "٣"]
)
def test_an_invalid_cursor_is_rejected(text: str) -> None:
    with pytest.raises(Refused):
        read_cursor(text)
