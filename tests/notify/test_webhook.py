"""Webhooks are signed, go to permitted addresses only, and succeed only with a 2xx."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ssl
from typing import Any

import msgspec
import pytest
import trustme

from mainspring.core.model.notices import AlertFilter, Notice
from mainspring.egress.pinned import PinnedClient
from mainspring.notify.signed_post import SignedPost, key_of
from mainspring.notify.webhook import Webhook
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Refused, Unavailable
from mainspring.secret_references import Secret
from tests.notify.servers import http_server, notice

KEY = b"0123456789abcdef0123456789abcdef"
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"
DELIVERY = "notify:alert_1:ops:on"


def webhook(url: str, *, allow_private: bool = True, timeout_seconds: float = 10.0, **more: Any) -> Webhook:
    """A channel to a URL."""
    client = PinnedClient(allow_private=allow_private, allowed_by="a test does not permit it", **more)
    return Webhook(
        "ops", AlertFilter(), SignedPost(client, Secret(url), Secret(SECRET), SystemClock(), timeout_seconds)
    )


async def loopback(host: str, port: int) -> list[str]:
    """Resolve every name to this machine."""
    return ["127.0.0.1"]


async def test_the_signature_follows_standard_webhooks() -> None:
    """Checked with nothing but the secret and the request."""
    async with http_server() as server:
        await webhook(f"http://127.0.0.1:{server.port}/hook?team=a").send(DELIVERY, notice())

    (request,) = server.got
    signed = b".".join(
        [request.headers["webhook-id"].encode(), request.headers["webhook-timestamp"].encode(), request.body]
    )
    version, _, given = request.headers["webhook-signature"].partition(",")
    assert version == "v1"
    assert base64.b64decode(given) == hmac.new(KEY, signed, hashlib.sha256).digest()
    assert request.line == "POST /hook?team=a HTTP/1.1"
    assert request.headers["webhook-id"] == DELIVERY
    assert msgspec.json.decode(request.body, type=Notice) == notice()


async def test_a_retry_has_the_same_id() -> None:
    """Receivers deduplicate by it."""
    async with http_server() as server:
        channel = webhook(f"http://127.0.0.1:{server.port}/")
        await channel.send(DELIVERY, notice())
        await channel.send(DELIVERY, notice())

    assert [request.headers["webhook-id"] for request in server.got] == [DELIVERY, DELIVERY]


def test_a_secret_without_the_prefix_is_used_literally() -> None:
    """Secrets of other senders look different."""
    assert key_of(Secret("hush")) == b"hush"
    assert key_of(Secret(SECRET)) == KEY
    for useless in ("whsec_***", "whsec_"):
        with pytest.raises(Refused) as refused:
            key_of(Secret(useless))
        assert refused.value.reason == "bad_secret"


@pytest.mark.parametrize("status", ["301 Moved", "400 Bad Request", "410 Gone", "500 Oops", "503 Later"])
async def test_only_a_2xx_is_success(status: str) -> None:
    """Everything else is retried."""
    async with http_server() as server:
        server.status = status
        with pytest.raises(Unavailable) as caught:
            await webhook(f"http://127.0.0.1:{server.port}/secret-path").send(DELIVERY, notice())
    assert caught.value.reason == f"status_{status[:3]}"


async def test_a_redirect_is_not_followed() -> None:
    """A receiver can't redirect requests."""
    async with http_server() as server, http_server() as other:
        server.status, server.more_headers = "307 Temporary", [f"location: http://127.0.0.1:{other.port}/"]
        with pytest.raises(Unavailable) as caught:
            await webhook(f"http://127.0.0.1:{server.port}/").send(DELIVERY, notice())

    assert caught.value.reason == "status_307"
    assert (len(server.got), other.got) == (1, [])


async def test_an_endless_response_is_not_read() -> None:
    """Only the status counts."""
    async with http_server() as server:
        server.status, server.endless = "200 OK", True
        await webhook(f"http://127.0.0.1:{server.port}/").send(DELIVERY, notice())

    assert len(server.got) == 1


async def test_a_receiver_that_does_not_answer_times_out() -> None:
    """After a while."""
    async with http_server() as server:
        server.silent = True
        with pytest.raises(Unavailable) as caught:
            await webhook(f"http://127.0.0.1:{server.port}/", timeout_seconds=0.2).send(DELIVERY, notice())
    assert caught.value.reason == "no_answer"


async def test_the_error_of_an_unreachable_receiver_omits_the_path() -> None:
    """It may be a secret."""
    async with http_server() as server:
        port = server.port
    with pytest.raises(Unavailable) as caught:
        await webhook(f"http://127.0.0.1:{port}/secret-path").send(DELIVERY, notice())

    assert "secret-path" not in repr(caught.value)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.1", "0x7f000001", "2130706433", "0.0.0.0", "169.254.169.254", "10.0.0.1",  # noqa: S104
        "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[fe80::1]", "[fd00::1]",
        "localhost",
    ],
)  # fmt: skip
async def test_nothing_goes_to_this_machine_or_its_network(host: str) -> None:
    """In any notation."""
    async with http_server() as server:
        with pytest.raises((Refused, Unavailable)) as caught:
            await webhook(f"http://{host}:{server.port}/", allow_private=False).send(DELIVERY, notice())

    assert server.got == []
    assert caught.value.reason in {"not_public", "no_address"}


async def test_a_name_that_resolves_to_this_machine_is_refused() -> None:
    """The address counts."""
    async with http_server() as server:
        channel = webhook(f"http://hooks.test:{server.port}/", allow_private=False, resolve=loopback)
        with pytest.raises(Refused) as refused:
            await channel.send(DELIVERY, notice())

    assert refused.value.reason == "not_public"
    assert server.got == []


async def test_a_name_is_resolved_once_and_the_checked_address_is_used() -> None:
    """A later change of the name has no effect."""
    asked: list[str] = []

    async def changing(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["192.0.2.1"]

    async with http_server() as server:
        await webhook(f"http://hooks.test:{server.port}/", resolve=changing).send(DELIVERY, notice())

    assert asked == ["hooks.test"]
    assert server.got[0].headers["host"] == f"hooks.test:{server.port}"


async def test_the_next_address_is_tried_if_one_can_not_be_reached() -> None:
    """For a host with several."""

    async def two(host: str, port: int) -> list[str]:
        return ["::1", "127.0.0.1"]

    async with http_server() as server:
        await webhook(f"http://hooks.test:{server.port}/", resolve=two).send(DELIVERY, notice())

    assert len(server.got) == 1


@pytest.mark.parametrize(("certified", "arrives"), [("hooks.test", True), ("other.test", False)])
async def test_the_certificate_must_match_the_name(certified: str, arrives: bool) -> None:
    """Although the connection goes to an address."""
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(certified).configure_cert(tls)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    async with http_server(tls) as server:
        channel = webhook(f"https://hooks.test:{server.port}/", resolve=loopback, trust=trust)
        if arrives:
            await channel.send(DELIVERY, notice())
        else:
            with pytest.raises(Unavailable) as caught:
                await channel.send(DELIVERY, notice())
            assert caught.value.reason == "not_reached"

    assert len(server.got) == int(arrives)


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would resolve the name again."""
    async with http_server() as server, http_server() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        await webhook(f"http://127.0.0.1:{server.port}/").send(DELIVERY, notice())

    assert (len(server.got), proxy.got) == (1, [])
