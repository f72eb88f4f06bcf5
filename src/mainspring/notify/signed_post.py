"""A POST that is signed as Standard Webhooks says, to an address that it may go to.

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

from mainspring.clock import Clock
from mainspring.errors import Refused, Unavailable
from mainspring.notify.addresses import CHANNEL, Resolve, choose, resolve
from mainspring.notify.references import Secret

TIMEOUT_SECONDS = 10.0
PREFIX = "whsec_"
_MOST_ADDRESSES = 3


class SignedPost:
    """Posts to one place, with one key."""

    def __init__(
        self,
        url: Secret,
        secret: Secret,
        clock: Clock,
        *,
        allow_private: bool = False,
        resolve: Resolve = resolve,
        trust: ssl.SSLContext | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        allowed_by: str = CHANNEL,
    ) -> None:
        """`allowed_by`: what would have to be otherwise for a private address. Raises Refused for a useless secret."""
        self._clock = clock
        self._url = httpx2.URL(url.value)
        self._host = self._url.raw_host.decode()
        self._key = key_of(secret)
        self._allow_private = allow_private
        self._allowed_by = allowed_by
        self._resolve = resolve
        self._timeout_seconds = timeout_seconds
        self._trust = trust or ssl.create_default_context()

    async def send(self, delivery: str, body: bytes) -> None:
        """Post it. Raises Unavailable, also if it was not taken, or Refused if it may not go there."""
        status = await self.post(delivery, body)
        if not is_taken(status):
            raise Unavailable(f"{self._host} answered {status}")

    async def post(self, delivery: str, body: bytes, media_type: str = "application/json") -> int:
        """Post it; what was answered, whatever that is. Raises Unavailable, or Refused if it may not go there."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._send(delivery, body, media_type)
        except TimeoutError:
            raise Unavailable(f"{self._host} did not answer within {self._timeout_seconds:g} s") from None

    async def _send(self, delivery: str, body: bytes, media_type: str) -> int:
        port = self._url.port or (443 if self._url.scheme == "https" else 80)
        addresses = await choose(
            self._host, port, allow_private=self._allow_private, resolve=self._resolve, allowed_by=self._allowed_by
        )
        timestamp = str(int(self._clock.wall().timestamp()))
        headers = {
            "host": self._url.netloc.decode(),
            "content-type": media_type,
            "user-agent": "mainspring",
            "webhook-id": delivery,
            "webhook-timestamp": timestamp,
            "webhook-signature": signature(self._key, delivery, timestamp, body),
        }
        *others, last = addresses[:_MOST_ADDRESSES]
        for address in others:
            try:
                return await self._post(address, headers, body)
            except httpx2.ConnectError:
                continue
        try:
            return await self._post(last, headers, body)
        except httpx2.ConnectError as error:
            raise Unavailable(f"{self._host} could not be reached: {type(error).__name__}") from None

    async def _post(self, address: str, headers: dict[str, str], body: bytes) -> int:
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
        try:
            async with client:
                answer = await client.send(request, stream=True)
                await answer.aclose()
        except httpx2.ConnectError:
            raise
        except httpx2.HTTPError as error:
            raise Unavailable(f"{self._host} could not be told: {type(error).__name__}") from None
        return answer.status_code


def is_taken(status: int) -> bool:
    """Whether an answer says that the message has arrived."""
    return 200 <= status < 300


def key_of(secret: Secret) -> bytes:
    """The key to sign with: of `whsec_..` what is encoded behind it, of anything else its bytes. Raises Refused."""
    if not secret.value.startswith(PREFIX):
        return secret.value.encode()
    try:
        key = base64.b64decode(secret.value.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise Refused(f"what follows {PREFIX} must be base64")
    return key


def signature(key: bytes, delivery: str, timestamp: str, body: bytes) -> str:
    """What proves who sent it, when, and what."""
    signed = hmac.new(key, f"{delivery}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"
