"""A notice as a signed POST, as Standard Webhooks says it.

    webhook-id          of the delivery: the same when it is tried again
    webhook-timestamp   seconds since 1970, when it was tried
    webhook-signature   v1, and the base64 of the HMAC-SHA256 of `id.timestamp.body`

Any 2xx is success. Redirects are not followed, what is answered is not read, and no proxy of the environment is used:
the request goes to the address that was looked at (`addresses.py`).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import ssl

import httpx2
import msgspec

from mainspring.clock import Clock
from mainspring.core.notices import Notice, Wish
from mainspring.errors import Refused, Unavailable
from mainspring.notify.addresses import Resolve, choose, resolve
from mainspring.notify.references import Secret

TIMEOUT_SECONDS = 10.0
_MOST_ADDRESSES = 3
_PREFIX = "whsec_"


class Webhook:
    """A channel that posts."""

    def __init__(
        self,
        name: str,
        wish: Wish,
        clock: Clock,
        *,
        url: Secret,
        secret: Secret,
        allow_private: bool = False,
        resolve: Resolve = resolve,
        trust: ssl.SSLContext | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self.name = name
        self.wish = wish
        self._clock = clock
        self._url = httpx2.URL(url.value)
        self._host = self._url.raw_host.decode()
        self._key = key_of(secret)
        self._allow_private = allow_private
        self._resolve = resolve
        self._timeout_seconds = timeout_seconds
        self._trust = trust or ssl.create_default_context()

    async def send(self, delivery: str, notice: Notice) -> None:
        """Post it. Raises Unavailable, or Refused if it may not go there."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await self._send(delivery, notice)
        except TimeoutError:
            raise Unavailable(f"{self._host} did not answer within {self._timeout_seconds:g} s") from None

    async def _send(self, delivery: str, notice: Notice) -> None:
        port = self._url.port or (443 if self._url.scheme == "https" else 80)
        addresses = await choose(self._host, port, allow_private=self._allow_private, resolve=self._resolve)
        body = msgspec.json.encode(notice)
        timestamp = str(int(self._clock.wall().timestamp()))
        headers = {
            "host": self._url.netloc.decode(),
            "content-type": "application/json",
            "user-agent": "mainspring",
            "webhook-id": delivery,
            "webhook-timestamp": timestamp,
            "webhook-signature": signature(self._key, delivery, timestamp, body),
        }
        for last, address in _with_last(addresses[:_MOST_ADDRESSES]):
            try:
                await self._post(address, headers, body)
            except httpx2.ConnectError as error:
                if last:
                    raise Unavailable(f"{self._host} could not be reached: {type(error).__name__}") from None
            except httpx2.HTTPError as error:
                raise Unavailable(f"{self._host} could not be told: {type(error).__name__}") from None
            else:
                return

    async def _post(self, address: str, headers: dict[str, str], body: bytes) -> None:
        """Connect to this address, as if its name had been looked up there; the certificate is the name's."""
        client = httpx2.AsyncClient(
            verify=self._trust, timeout=self._timeout_seconds, follow_redirects=False, trust_env=False
        )
        request = client.build_request(
            "POST",
            self._url.copy_with(host=address),
            content=body,
            headers=headers,
            extensions={"sni_hostname": self._host},
        )
        async with client:
            answer = await client.send(request, stream=True)
            await answer.aclose()
        if not answer.is_success:
            raise Unavailable(f"{self._host} answered {answer.status_code}")


def key_of(secret: Secret) -> bytes:
    """The key to sign with: of `whsec_..` what is encoded behind it, of anything else its bytes. Raises Refused."""
    if not secret.value.startswith(_PREFIX):
        return secret.value.encode()
    try:
        key = base64.b64decode(secret.value.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise Refused(f"what follows {_PREFIX} must be base64")
    return key


def signature(key: bytes, delivery: str, timestamp: str, body: bytes) -> str:
    """What proves who sent it, when, and what."""
    signed = hmac.new(key, f"{delivery}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


def _with_last(addresses: list[str]) -> list[tuple[bool, str]]:
    return [(number == len(addresses), address) for number, address in enumerate(addresses, 1)]
