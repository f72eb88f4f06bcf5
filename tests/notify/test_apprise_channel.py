"""The channel through apprise, with its JSON plugin and a test server."""

from __future__ import annotations

import logging

import msgspec
import pytest

from mainspring.core.model.notices import AlertFilter, NoticeState
from mainspring.notify.apprise_channel import AppriseChannel
from mainspring.protocol.errors import Refused, Unavailable
from mainspring.secret_references import Secret
from tests.notify.servers import http_server, notice

DELIVERY = "notify:alert_1:chat:on"

# Apprise loads all of its plugins; one of them imports what a later Python does not have.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


@pytest.mark.parametrize(
    ("state", "type", "title"),
    [
        (NoticeState.FIRING, "failure", "[HIGH] load is held"),
        (NoticeState.RESOLVED, "success", "[RESOLVED] load is held"),
    ],
)
async def test_a_notice_goes_through_apprise(state: NoticeState, type: str, title: str) -> None:
    """With title, text and type."""
    async with http_server() as server:
        server.status = "200 OK"
        await AppriseChannel("chat", AlertFilter(), url=Secret(f"json://127.0.0.1:{server.port}/")).send(
            DELIVERY, notice(state=state)
        )

    (request,) = server.got
    told = msgspec.json.decode(request.body)
    assert (told["title"], told["type"]) == (title, type)
    assert "tenant: acme" in told["message"]


async def test_a_failed_delivery_raises_unavailable(caplog: pytest.LogCaptureFixture) -> None:
    """Its URL is in no log."""
    async with http_server() as server:
        server.status = "500 Oops"
        channel = AppriseChannel("chat", AlertFilter(), url=Secret(f"json://user:hush@127.0.0.1:{server.port}/hush"))
        with caplog.at_level(logging.WARNING), pytest.raises(Unavailable) as caught:
            await channel.send(DELIVERY, notice())

    assert caught.value.reason == "not_delivered"
    assert "hush" not in caplog.text


def test_an_unsupported_url_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """At the start of the server."""
    with pytest.raises(Refused) as caught:
        AppriseChannel("chat", AlertFilter(), url=Secret("nosuch://hush"))

    assert caught.value.reason == "unknown_url"
    assert "hush" not in caplog.text + str(caught.value)
