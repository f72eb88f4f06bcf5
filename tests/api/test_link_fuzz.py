"""Invalid worker messages do not affect other workers."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

from mainspring.protocol.wire import (
    Heartbeat,
    Log,
    Offer,
    Outcome,
    Progress,
    Received,
    Register,
    Result,
    Started,
    Verdict,
)
from tests.api.api_server import ApiServers, LinkClient, Server

CLOSED_FOR_A_REASON = {1007, 1008, 1009}

_texts = st.text(max_size=20)
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | _texts | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=10,
)
_tags = st.sampled_from(
    ["Register", "Heartbeat", "Result", "Started", "Received", "Returned", "Log", "Checkpoint", "Goodbye"]
)
_sensible = st.sampled_from(
    [
        Heartbeat(),
        Heartbeat((Progress("att_1", float("nan"), "note"),)),
        Started("att_1"),
        Received(("att_1", "att_2")),
        Result("att_1", Outcome.FAILED, None, "not JSON"),
        Log("../../etc/passwd", 0, b"x"),
        Log("att_000000000000-0000000000000000", 2**53, b"x", last=True),
    ]
)
_messages = _sensible | st.builds(lambda tag, rest: [tag, *rest], _tags, st.lists(_values, max_size=5)) | _values
_frames = st.lists(_messages, max_size=5).map(msgspec.msgpack.encode) | _values.map(msgspec.msgpack.encode)
_cut = st.builds(lambda frame, share: frame[: int(len(frame) * share)], _frames, st.floats(0, 1))
frames = st.lists(_frames | _cut | st.binary(max_size=200) | _texts, min_size=1, max_size=3)


def test_invalid_frames_close_their_own_link_only(tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()

        async def start() -> tuple[ApiServers, Server, LinkClient]:
            api_servers = await stack.enter_async_context(ApiServers(tmp_path))
            server = await api_servers.server()
            await server.leader()
            return api_servers, server, await stack.enter_async_context(server.caller("good"))

        api_servers, server, good = runner.run(start())

        @given(said=frames, registered=st.booleans())
        @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
        def does_no_harm(said: list[bytes | str], registered: bool) -> None:
            runner.run(send_nonsense(server, said, registered))
            runner.run(work(api_servers, good))

        try:
            does_no_harm()
        finally:
            runner.run(stack.aclose())


async def send_nonsense(server: Server, said: list[bytes | str], registered: bool) -> None:
    async with server.socket() as socket:
        bad = LinkClient(socket, "bad")
        with suppress(ConnectionClosed):
            if registered:
                await bad.say(Register("bad", "s1", Offer(0, 0), {}))
            for frame in said:
                await socket.send(frame)
            await socket.send("the end")
        code, _ = await bad.closed()
        assert code in CLOSED_FOR_A_REASON


async def work(api_servers: ApiServers, worker: LinkClient) -> None:
    (run,) = await api_servers.submit()
    task = await worker.next_task()
    assert task.run == run.id
    assert await worker.finish(task.attempt) is Verdict.APPLIED
