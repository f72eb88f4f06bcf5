"""File probes (TRG-8): sent to a worker over its link, and answered to the caller."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.host.inbox import Inbox
from mainspring.host.links import Links
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.wire import Look, Offer, Register, Seen

HELLO = Register("w1", "s1", Offer(1000, 1 << 30), {})


async def test_a_file_probe_returns_the_answer_of_the_worker() -> None:
    """In any order of the answers, and without an event for the shard."""
    inbox = Inbox(10)
    links = Links(inbox)
    link = links.open(HELLO)
    await inbox.next(wait=0, max_events=10)
    asking = [asyncio.create_task(links.look(path)) for path in ("/in/a", "/in/b")]
    questions: list[Look] = []
    while len(questions) < len(asking):
        questions += [one for one in await link.next() if isinstance(one, Look)]
    for question in reversed(questions):
        links.receive(link, Seen(question.question, exists=question.path == "/in/b"))

    assert await asyncio.gather(*asking) == [False, True]
    assert await inbox.next(wait=0, max_events=10) == []


async def test_a_file_probe_without_workers_fails() -> None:
    with pytest.raises(Unavailable):
        await Links(Inbox(10)).look("/in")


async def test_a_disconnect_fails_the_pending_probes() -> None:
    links = Links(Inbox(10))
    link = links.open(HELLO)
    asking = asyncio.create_task(links.look("/in"))
    assert [type(one) for one in await link.next()] == [Look]

    links.close(link)
    with pytest.raises(Unavailable):
        await asking
    with pytest.raises(Unavailable):
        await link.look("/in")
