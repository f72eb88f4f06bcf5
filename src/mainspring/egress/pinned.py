"""HTTP requests to the address that was checked (`addresses.py`), and to no other.

Proxies of the environment are not used, since they would resolve the name again; redirects are not followed; the
certificate must match the name. Timeouts and the size of the response are up to the caller.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import httpx2

from mainspring.egress.addresses import Resolve, choose_addresses, resolve
from mainspring.protocol.errors import Refused, Unavailable
from mainspring.protocol.trust import tls_context

_MAX_ADDRESSES = 3
_PORTS = {"http": 80, "https": 443}


def parse_url(text: str) -> httpx2.URL:
    """Parse a URL. Raises Refused; the message does not quote it."""
    try:
        return httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError):
        raise Refused("invalid URL") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedClient:
    """HTTP client that checks and pins addresses."""

    allow_private: bool
    allowed_by: str
    """What does not permit private addresses, as the end of a sentence."""
    resolve: Resolve = resolve
    trust: ssl.SSLContext | None = None

    @asynccontextmanager
    async def send(
        self, method: str, url: httpx2.URL, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request and yield the response with its body unread. Raises Refused for a forbidden address,
        Unavailable.
        """
        host = url.raw_host.decode()
        port = url.port or _PORTS[url.scheme]
        addresses = await choose_addresses(
            host, port, allow_private=self.allow_private, allowed_by=self.allowed_by, resolve=self.resolve
        )
        async with httpx2.AsyncClient(
            verify=self.trust or tls_context(url.scheme), timeout=None, follow_redirects=False, trust_env=False
        ) as client:
            try:
                requests = [
                    client.build_request(
                        method,
                        url.copy_with(host=address),
                        content=body,
                        headers={"host": url.netloc.decode(), **headers},
                        extensions={"sni_hostname": host},
                    )
                    for address in addresses[:_MAX_ADDRESSES]
                ]
                async with aclosing(await _first_answer(client, requests)) as answer:
                    yield answer
            except httpx2.ConnectError as error:
                raise Unavailable(
                    f"{host} could not be reached: {type(error).__name__}", reason="not_reached"
                ) from None
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                raise Unavailable(f"{host} did not answer: {type(error).__name__}", reason="no_answer") from None


async def _first_answer(client: httpx2.AsyncClient, requests: list[httpx2.Request]) -> httpx2.Response:
    """Send the request to the addresses in order, and return the response of the first that is reachable."""
    *others, last = requests
    for request in others:
        try:
            return await client.send(request, stream=True)
        except httpx2.ConnectError:
            continue
    return await client.send(last, stream=True)
