"""All senders of user-supplied requests, each by its own interface: an HTTP call of a task, an alert, a webhook."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from mainspring.core.model.notices import AlertFilter
from mainspring.core.text.urls import fault_of_url
from mainspring.core.work.http_calls import PreparedRequest
from mainspring.egress.addresses import Resolve
from mainspring.egress.pinned import PinnedClient
from mainspring.notify.signed_post import SignedPost
from mainspring.notify.webhook import Webhook
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Refused, Unavailable
from mainspring.secret_references import Secret
from mainspring.worker.executors.http_exchange import Exchange
from tests.notify.servers import notice

Send: TypeAlias = "Callable[[str, bool, Resolve], Awaitable[object]]"


async def here(host: str, port: int) -> list[str]:
    """Resolve an address in any notation, and the names of this machine only, without DNS."""
    if host.lower().rstrip(".") in {"localhost", "ip6-localhost"}:
        return ["127.0.0.1", "::1"]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        raise Unavailable(f"{host} has no address", reason="no_address") from None
    return [str(address[0]) for *_, address in found]


async def by_task(url: str, allowed: bool, resolve: Resolve) -> object:
    """Send like an HTTP call of a task."""
    if (why := fault_of_url(url)) is not None:
        raise Refused(why)
    exchange = Exchange(allow_private=allowed, resolve=resolve)
    try:
        return await exchange.ask(PreparedRequest(method="GET", url=url, headers={}, body=b""), (), lambda line: None)
    finally:
        exchange.close()


async def by_channel(url: str, allowed: bool, resolve: Resolve) -> object:
    """Send like an alert channel."""
    client = PinnedClient(allow_private=allowed, allowed_by="a test does not permit it", resolve=resolve)
    post = SignedPost(client, _url(url), Secret("hush"), SystemClock())
    await Webhook("ops", AlertFilter(), post).send("d1", notice())
    return None


async def by_webhook(url: str, allowed: bool, resolve: Resolve) -> object:
    """Send like the webhooks of a server."""
    client = PinnedClient(allow_private=allowed, allowed_by="a test does not permit it", resolve=resolve)
    post = SignedPost(client, _url(url), Secret("hush"), SystemClock())
    await post.send("d1", b"{}")
    return None


def _url(url: str) -> Secret:
    """Validate a URL like its owner does."""
    if (why := fault_of_url(url)) is not None:
        raise Refused(why)
    return Secret(url)
