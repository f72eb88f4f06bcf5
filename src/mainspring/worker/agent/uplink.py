"""The worker's connection to a server: one WebSocket at a time, message groups in both directions, endless reconnects.

    ┌──────────► connect ──Register──► Welcome ──► frames both ways ──┐
    │               │ 401, 403: every 5 s            │ Redirect        │ lost, or silent for 15 s
    └── backoff ◄───┴────────────────────────────────┴─────────────────┘

1. While a frame is being sent, further messages queue up for the next one.
2. It gives up only if the very first response rejects the token or certificate. Server failures never end a worker.
3. The token is sent only to configured servers or redirect targets, and never from an encrypted link to a plain one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
import structlog
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Forbidden, Refused, Unauthenticated
from mainspring.protocol.wire import MAX_FRAME_BYTES, FromWorker, Received, Redirect, Register, ToWorker, Welcome

if TYPE_CHECKING:
    from mainspring.worker.agent.identity import Identity

log = structlog.get_logger()

PATH = "/api/v1/worker-link"
PING_SECONDS = 4.0
SILENCE_TIMEOUT_SECONDS = 15.0
MIN_BACKOFF_SECONDS = 0.1
MAX_BACKOFF_SECONDS = 5.0
ELECTION_SECONDS = 10.0
ELECTION_BACKOFF_SECONDS = 1.0
"""Maximum backoff after a recent connection: the leader is probably being replaced, which does not take long."""
OPEN_SECONDS = 10.0
RECEIPT_SECONDS = 0.005
"""Delay of a receipt, so that it shares a frame with the start or end of a short task: one frame per step of a chain
instead of two."""
_MAX_SENT_BYTES = MAX_FRAME_BYTES // 2
_MAX_RECEIVED_BYTES = 64 * 1024 * 1024
_MAX_HOPS = 3
_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[list[ToWorker]] = msgspec.msgpack.Decoder(list[ToWorker])


class Uplink:
    """Keeps a session with the current leader."""

    def __init__(
        self,
        servers: Sequence[str],
        identity: Identity,
        clock: Clock,
        random: Random,
        *,
        hello: Callable[[], Register],
        on_messages: Callable[[list[ToWorker]], None],
        on_lost: Callable[[], None],
    ) -> None:
        """`hello` opens a session, `on_messages` takes a frame (empty: a sign of life), `on_lost` ends the session."""
        self._servers = [link_address(server) for server in servers]
        self._identity = identity
        self._clock = clock
        self._random = random
        self._hello = hello
        self._on_messages = on_messages
        self._on_lost = on_lost
        self._next = 0
        self._redirect: str | None = None
        self._failures = 0
        self._hops = 0
        self._welcomed = False
        self._closing = False
        self._outgoing: list[FromWorker] = []
        self._wakeup = asyncio.Event()
        self._sent = asyncio.Event()
        self._connection: ClientConnection | None = None
        self._received_at = self._opened_at = clock.monotonic()

    def send(self, messages: Sequence[FromWorker]) -> None:
        """Send messages in the open session; without one they are dropped, and sent again in the next."""
        if self._connection is not None and messages:
            self._outgoing += messages
            self._sent.clear()
            if all(isinstance(message, Received) for message in messages):
                # A receipt is not urgent: the next message takes it along.
                asyncio.get_running_loop().call_later(RECEIPT_SECONDS, self._wakeup.set)
            else:
                self._wakeup.set()

    async def close(self, seconds: float) -> None:
        """Send queued messages for at most `seconds`, and disconnect for good."""
        self._closing = True
        if self._connection is None:
            return
        try:
            async with asyncio.timeout(seconds):
                if self._outgoing:
                    self._wakeup.set()
                    await self._sent.wait()
                await self.reopen()
        except TimeoutError:
            log.warning("link.not_flushed", messages=len(self._outgoing))

    def silence(self) -> float:
        """Return the seconds since a server last responded."""
        return self._clock.monotonic() - self._received_at

    async def reopen(self) -> None:
        """Close the session, so that a new one is opened."""
        if self._connection is not None:
            await self._connection.close()

    async def run(self) -> None:
        """Keep a session open until closed. Raises Unauthenticated or Forbidden if that is the first response."""
        while not self._closing:
            address = self._choose()
            try:
                await self._serve(address)
            except InvalidStatus as error:
                self._refused(address, error)
            except Unauthenticated as error:
                self._expired(error)
            except (OSError, InvalidHandshake, InvalidURI, ConnectionClosed, msgspec.MsgspecError) as error:
                # No server, or a faulty one: log it and try the next.
                self._failures += 1
                log.warning("link.failed", server=address, error=str(error) or type(error).__name__)
            if not self._closing:
                await self._clock.sleep(self._pause())

    def _choose(self) -> str:
        """Return the address to connect to: the redirect target, else the next configured server."""
        if self._redirect is not None:
            address, self._redirect = self._redirect, None
            return address
        self._next += 1
        return self._servers[(self._next - 1) % len(self._servers)]

    def _pause(self) -> float:
        """Return the backoff with full jitter; 0 for a redirect, unless servers redirect in a loop."""
        if self._redirect is not None and self._hops <= _MAX_HOPS:
            return 0.0
        maximum = ELECTION_BACKOFF_SECONDS if self.silence() < ELECTION_SECONDS else MAX_BACKOFF_SECONDS
        return min(maximum, MIN_BACKOFF_SECONDS * 2.0 ** min(self._failures, 10)) * self._random.random()

    def _refused(self, address: str, error: InvalidStatus) -> None:
        status = error.response.status_code
        self._failures += 1
        if status not in (401, 403):
            log.warning("link.refused", server=address, status=status)
            return
        why = _error_detail(error) or (
            "rejected the token" if status == 401 else "does not accept a worker with this token"
        )
        if not self._welcomed:
            raise (Unauthenticated if status == 401 else Forbidden)(f"{address} {why} ({status})")
        self._failures = 10
        log.error("link.refused", server=address, status=status, because=f"the server {why}")

    def _expired(self, error: Unauthenticated) -> None:
        """The certificate expired while the worker was disconnected from all servers."""
        if not self._welcomed:
            raise error
        self._failures = 10
        log.error("link.expired", because=str(error))

    async def _serve(self, address: str) -> None:
        """Run one session, from the handshake to its end."""
        async with connect(
            address,
            additional_headers=self._identity.headers(),
            ssl=self._identity.context() if address.startswith("wss:") else None,
            compression=None,
            open_timeout=OPEN_SECONDS,
            ping_interval=None,
            close_timeout=2.0,
            max_size=_MAX_RECEIVED_BYTES,
        ) as connection:
            await connection.send(_ENCODER.encode([self._hello()]))
            self._outgoing = []
            self._connection = connection
            self._opened_at = self._clock.monotonic()
            loops = (self._receive_loop(connection, address), self._send_loop(connection), self._ping_loop(connection))
            parts = [asyncio.create_task(loop) for loop in loops]
            try:
                done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
                for part in done:
                    part.result()
            finally:
                self._connection = None
                self._outgoing = []
                self._sent.set()
                for part in parts:
                    part.cancel()
                await asyncio.gather(*parts, return_exceptions=True)
                self._on_lost()

    async def _receive_loop(self, connection: ClientConnection, address: str) -> None:
        async for data in connection:
            if isinstance(data, str):
                log.warning("link.text", server=address)
                continue
            self._received_at = self._clock.monotonic()
            messages = _DECODER.decode(data)
            for message in messages:
                if isinstance(message, Welcome):
                    self._welcomed, self._failures, self._hops = True, 0, 0
                    log.info("link.open", server=address, session=message.session)
                elif isinstance(message, Redirect):
                    self._follow_redirect(message.address, address)
                    return
            self._on_messages(messages)
        log.info("link.closed", server=address, code=connection.close_code, reason=connection.close_reason)
        self._failures += 1

    def _follow_redirect(self, target: str, current: str) -> None:
        """Follow a redirect to the leader, if the token may be sent to that address."""
        if not target:
            self._failures += 1
            return
        try:
            address = link_address(target)
        except Refused as error:
            log.warning("link.bad_address", server=current, address=target, because=str(error))
            return
        if current.startswith("wss:") and not address.startswith("wss:"):
            log.warning(
                "link.bad_address", server=current, address=target, because="redirect from an encrypted to a plain link"
            )
        else:
            self._redirect = address
            self._hops += 1

    async def _send_loop(self, connection: ClientConnection) -> None:
        """Send queued messages, one frame at a time."""
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            messages, self._outgoing = self._outgoing, []
            try:
                for frame in _frames(messages):
                    await connection.send(frame)
            except ConnectionClosed:
                return  # the receive loop ends the session
            if not self._outgoing:
                self._sent.set()

    async def _ping_loop(self, connection: ClientConnection) -> None:
        """Ping the server; return when it stays silent."""
        while self._clock.monotonic() - max(self._opened_at, self._received_at) < SILENCE_TIMEOUT_SECONDS:
            await self._clock.sleep(PING_SECONDS)
            try:
                async with asyncio.timeout(SILENCE_TIMEOUT_SECONDS):
                    await (await connection.ping())
            except TimeoutError:
                continue  # frames may have arrived meanwhile
            except ConnectionClosed:
                return  # the receive loop ends the session
            self._received_at = self._clock.monotonic()
            self._on_messages([])
        log.warning("link.silent", seconds=SILENCE_TIMEOUT_SECONDS)


def link_address(server: str) -> str:
    """Return the WebSocket address of a server given as http, https, ws or wss. Raises Refused."""
    parts = urlsplit(server)
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        raise Refused(f"{server!r} is not a server address such as http://127.0.0.1:8484")
    path = parts.path.rstrip("/").removesuffix(PATH)
    return f"{scheme}://{parts.netloc}{path}{PATH}"


def _error_detail(error: InvalidStatus) -> str:
    """Return the error detail of the response, if there is one."""
    try:
        detail = msgspec.json.decode(error.response.body or b"", type=dict[str, object]).get("detail")
    except msgspec.DecodeError:
        return ""
    return f"says: {detail}" if isinstance(detail, str) else ""


def _frames(messages: list[FromWorker]) -> list[bytes]:
    """Encode messages as frames, in order: one, unless it would be too large for a server."""
    frame = _ENCODER.encode(messages)
    if len(frame) <= _MAX_SENT_BYTES or len(messages) == 1:
        return [frame]
    half = len(messages) // 2
    return _frames(messages[:half]) + _frames(messages[half:])
