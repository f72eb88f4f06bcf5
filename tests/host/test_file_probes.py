"""File probes (TRG-8): sent to a worker over its link, and answered to the caller."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.host.inbox import Inbox
from mainspring.host.links import Links
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.wire import FileProbed, Offer, ProbeFile, Register

HELLO = Register("w1", "s1", Offer(1000, 1 << 30), {})


async def test_a_file_probe_returns_the_answer_of_the_worker() -> None:
    """In any order of the answers, and without an event for the shard."""
    inbox = Inbox(10)
    links = Links(inbox)
    link = links.open(HELLO)
    await inbox.next(wait=0, max_events=10)
    asking = [asyncio.create_task(links.probe_file(path)) for path in ("/in/a", "/in/b")]
    probes: list[ProbeFile] = []
    while len(probes) < len(asking):
        probes += [one for one in await link.next() if isinstance(one, ProbeFile)]
    for question in reversed(probes):
        links.receive(link, FileProbed(question.question, exists=question.path == "/in/b"))

    assert await asyncio.gather(*asking) == [False, True]
    assert await inbox.next(wait=0, max_events=10) == []


async def test_a_file_probe_without_workers_fails() -> None:
    with pytest.raises(Unavailable):
        await Links(Inbox(10)).probe_file("/in")


async def test_a_disconnect_fails_the_pending_probes() -> None:
    links = Links(Inbox(10))
    link = links.open(HELLO)
    asking = asyncio.create_task(links.probe_file("/in"))
    assert [type(one) for one in await link.next()] == [ProbeFile]

    links.close(link)
    with pytest.raises(Unavailable):
        await asking
    with pytest.raises(Unavailable):
        await link.probe_file("/in")
