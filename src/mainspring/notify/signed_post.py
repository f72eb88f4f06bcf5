"""A POST, signed according to Standard Webhooks, to a permitted address.

    webhook-id          id of the delivery, the same for each retry
    webhook-timestamp   time of the attempt, in seconds since 1970
    webhook-signature   v1, and the base64 of the HMAC-SHA256 of `id.timestamp.body`

Any 2xx is success. The response body is not read, and the request goes to the address that was checked
(`egress/pinned.py`).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac

from mainspring.egress.pinned import PinnedClient, parse_url
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Refused, Unavailable
from mainspring.secret_references import Secret

TIMEOUT_SECONDS = 10.0
PREFIX = "whsec_"


class SignedPost:
    """Posts to one URL, with one key."""

    def __init__(
        self, client: PinnedClient, url: Secret, secret: Secret, clock: Clock, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        """Raises Refused for an invalid secret or URL."""
        self._clock = clock
        self._url = parse_url(url.value)
        self._host = self._url.raw_host.decode()
        self._key = key_of(secret)
        self._client = client
        self._timeout_seconds = timeout_seconds

    async def send(self, delivery: str, body: bytes) -> None:
        """Post a body. Raises Unavailable, also for a status other than 2xx, or Refused for a forbidden address."""
        status = await self.post(delivery, body)
        if not 200 <= status < 300:
            raise Unavailable(f"{self._host} answered {status}", reason=f"status_{status}")

    async def post(self, delivery: str, body: bytes, media_type: str = "application/json") -> int:
        """Post a body and return the HTTP status. Raises Unavailable, or Refused for a forbidden address."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._send(delivery, body, media_type)
        except TimeoutError:
            message = f"{self._host} did not answer within {self._timeout_seconds:g} s"
            raise Unavailable(message, reason="no_answer") from None

    async def _send(self, delivery: str, body: bytes, media_type: str) -> int:
        timestamp = str(int(self._clock.wall().timestamp()))
        headers = {
            "content-type": media_type,
            "user-agent": "mainspring",
            "webhook-id": delivery,
            "webhook-timestamp": timestamp,
            "webhook-signature": signature(self._key, delivery, timestamp, body),
        }
        async with self._client.send("POST", self._url, headers=headers, body=body) as answer:
            return answer.status_code


def key_of(secret: Secret) -> bytes:
    """Return the signing key: the decoded part after `whsec_`, or else the bytes of the secret. Raises Refused."""
    if not secret.value.startswith(PREFIX):
        return secret.value.encode()
    try:
        key = base64.b64decode(secret.value.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise Refused(f"the part after {PREFIX} must be base64", reason="bad_secret")
    return key


def signature(key: bytes, delivery: str, timestamp: str, body: bytes) -> str:
    """Sign delivery id, timestamp and body."""
    signed = hmac.new(key, f"{delivery}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"
