"""The worker link: a WebSocket at /api/v1/worker-link. Each binary message is a group of messages in msgpack.

    handshake ──auth──► first frame: one Register ──► session ──► closed
                            │                             by the worker, by the leader (its term ends, a newer session),
                            └─► Elsewhere, closed         by this server: a malformed frame, shutdown

1. A frame is decoded once, by types that carry their own limits. An invalid frame closes this link only.
2. Outgoing messages are those that the leader put into this worker's link: none of another worker can be among them.
3. A worker's id belongs to the token under which it is connected, until that link is closed; a worker with a
   certificate owns its id (`worker_access.py`).
4. A link ends with the token or certificate that opened it.
5. Browsers are rejected (any Origin header): they would act with the trust of their user's machine.

A frame has thousands of messages: per message, nothing is done, logged or scheduled beyond a type test.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import msgspec
import structlog
from msgspec.structs import replace
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from mainspring.api.auth.session_validity import ASK_AGAIN_SECONDS, Standing
from mainspring.api.auth.tokens import make_attempt_token
from mainspring.api.http import problems
from mainspring.api.logs.logs import LogStore
from mainspring.api.services import Principal, Services, client_of
from mainspring.api.worker_link.worker_access import check_worker, check_worker_is
from mainspring.core.model.worker import CLAIMANT, is_claimant
from mainspring.host.host import Host
from mainspring.host.links import Link
from mainspring.host.loop import Leader
from mainspring.protocol.errors import Fault, Forbidden, MainspringError, NotLeading, Refused, Unavailable
from mainspring.protocol.wire import (
    LARGEST_FRAME_BYTES,
    AskEnds,
    Assign,
    Assignment,
    Elsewhere,
    Ends,
    Frame,
    FromWorker,
    Log,
    Register,
    Result,
    ToWorker,
)

log = structlog.get_logger()

PATH = "/api/v1/worker-link"
HELLO_SECONDS = 10.0
TOKEN_LIFE = timedelta(days=367)
"""Longer than any attempt may run, including extensions: a token is valid only while its attempt runs, which is checked
with every request.
"""

NORMAL, MALFORMED, TOO_LARGE, OVER = 1000, 1008, 1009, 1012
"""WebSocket close codes: another server leads; protocol violation by the worker; oversized frame, not received; the
session or the server ends.
"""

MOST_IN_A_FRAME = 200_000
_SEND_SECONDS = 30.0
_CLOSE_SECONDS = 5.0
_MESSAGES_AT_ONCE = 2_000
_LARGEST_SENT_BYTES = LARGEST_FRAME_BYTES // 2
_LONGEST_REASON = 120
_NOTHING_TO_DO = "{}"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,199}")
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f]")

_FOR_OTHERS = (Log, AskEnds)
"""Messages that the leader does not handle."""

_decoder = msgspec.msgpack.Decoder(Frame)
_encoder = msgspec.msgpack.Encoder()


class WorkerLinks:
    """All worker links of one server."""

    def __init__(self, services: Services, host: Host, logs: LogStore) -> None:
        self._services = services
        self._host = host
        self._logs = logs
        self._open: dict[str, tuple[str, Link]] = {}
        """By worker: the principal under which it connected, and its link."""
        self._ending = False

    async def serve(self, socket: WebSocket) -> None:
        """Serve one connection, from its handshake to its end."""
        try:
            principal = await self._admit(socket)
        except MainspringError as error:
            await socket.send_denial_response(_denial(error))
            return
        await socket.accept()
        code, reason = OVER, "the session has ended"
        try:
            code, reason = await self._session(socket, principal)
        except WebSocketDisconnect as gone:
            if gone.code == TOO_LARGE:
                log.warning("link.refused", by=principal.name, client=client_of(socket), fault="frame too large")
            return
        except Refused as error:
            code, reason = MALFORMED, _reason(error)
            log.warning("link.refused", by=principal.name, client=client_of(socket), fault=reason)
        except Unavailable as error:
            log.warning("link.unavailable", by=principal.name, fault=str(error))
        await _close(socket, code, reason)

    def end_links(self) -> None:
        """Close all sessions and accept no new ones, because the server is stopping."""
        self._ending = True
        for _, link in list(self._open.values()):
            link.close()

    async def _admit(self, socket: WebSocket) -> Principal:
        if "origin" in socket.headers:
            raise Forbidden("the worker link is not for browsers")
        principal = await self._services.who_asks(socket)
        check_worker(self._services, principal)
        return principal

    async def _session(self, socket: WebSocket, principal: Principal) -> tuple[int, str]:
        """Register a worker and run its session until one side ends; return the close code and reason."""
        hello = await _hello(socket)
        await check_worker_is(self._services, principal, name=hello.worker, pool=hello.pool)
        if self._ending:
            return OVER, "the server is stopping"
        try:
            leader = self._host.leader(hello.pool)
        except NotLeading:
            address = await self._services.shards.leader_address(hello.pool) or ""
            log.info("link.elsewhere", worker=hello.worker, pool=hello.pool, address=address)
            await socket.send_bytes(_encoder.encode([Elsewhere(address)]))
            return NORMAL, "another server leads the pool"
        link = self._enter(leader, hello, principal)
        log.info("link.opened", worker=hello.worker, by=principal.name, client=client_of(socket))
        parts = [
            asyncio.create_task(part)
            for part in (
                self._send(socket, leader, link),
                self._receive(socket, leader, link),
                self._watch(Standing(self._services, socket)),
            )
        ]
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leader.links.close(link)
            if self._open.get(link.worker, (None, None))[1] is link:
                del self._open[link.worker]
            for part in parts:
                part.cancel()
            ends = await asyncio.gather(*parts, return_exceptions=True)
            log.info("link.closed", worker=hello.worker)
        for end in ends:
            if isinstance(end, Exception):
                raise end
        return OVER, "the session has ended"

    def _enter(self, leader: Leader, hello: Register, principal: Principal) -> Link:
        """Open the session. Raises Refused if the worker is connected under another principal."""
        name = f"{principal.tenant} {principal.name}"
        holder = self._open.get(hello.worker)
        if holder is not None and holder[0] != name and not holder[1].closed:
            raise Refused(f"worker {hello.worker} is connected with another token")
        link = leader.open_link(hello)
        self._open[hello.worker] = (name, link)
        return link

    async def _send(self, socket: WebSocket, leader: Leader, link: Link) -> None:
        """Send the queued messages of the link until it is closed."""
        while messages := await link.next():
            now = leader.time.now()
            for first in range(0, len(messages), _MESSAGES_AT_ONCE):
                some = [self._with_tokens(one, now) for one in messages[first : first + _MESSAGES_AT_ONCE]]
                for frame in _frames(some):
                    await _send_soon(socket, frame)

    def _with_tokens(self, message: ToWorker, now: datetime) -> ToWorker:
        """Add the attempt's token to an assignment, so that tokens are never stored or queued."""
        if type(message) is not Assign:
            return message
        return replace(message, group=tuple([self._with_token(one, now) for one in message.group]))

    def _with_token(self, assignment: Assignment, now: datetime) -> Assignment:
        if assignment.work == _NOTHING_TO_DO:
            return assignment
        token = make_attempt_token(self._services.cluster_secret, assignment.attempt, now + TOKEN_LIFE)
        return replace(assignment, token=token)

    async def _watch(self, standing: Standing) -> None:
        """Raise Refused when the worker's token or certificate is no longer valid."""
        while await standing.is_valid():
            await self._services.clock.sleep(ASK_AGAIN_SECONDS)
        raise _fault("the token or certificate is no longer valid")

    async def _receive(self, socket: WebSocket, leader: Leader, link: Link) -> None:
        """Receive messages from the worker until the link is closed. Raises Refused on a protocol violation."""
        while not link.closed:
            reports, logs, asked = _sort(await _frame(socket))
            leader.receive(link, reports)
            if link.credit < 0:
                raise _fault("result without credit")
            if logs:
                await self._logs.take(link, logs)
            for question in asked:
                link.put(await self._ends(question))

    async def _ends(self, question: AskEnds) -> Ends:
        """Read the ages of ended runs."""
        now = await self._services.time.now()
        ends: dict[str, float | None] = {}
        for run_id in filter(str.isprintable, question.runs):
            run = await self._services.store.run(run_id)
            if run is not None:
                ends[run_id] = None if run.ended_at is None else max(0.0, (now - run.ended_at).total_seconds())
        return Ends(ends)


async def _hello(socket: WebSocket) -> Register:
    """Receive the first frame. Raises Refused unless it is one valid Register, in time."""
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            messages = await _frame(socket)
    except TimeoutError:
        raise _fault(f"no Register within {HELLO_SECONDS:.0f} s") from None
    if len(messages) != 1 or not isinstance(hello := messages[0], Register):
        raise _fault("the first frame must be exactly one Register")
    for what, name in (("worker", hello.worker), ("session", hello.session), ("pool", hello.pool)):
        if not _NAME.fullmatch(name):
            raise _fault(f"the {what} {name[:40]!r} is not a valid name: use letters, digits and . _ : @ / + -")
    if is_claimant(hello.worker):
        raise _fault(f"the name of a worker on a link must not begin with {CLAIMANT}")
    texts = [hello.zone, hello.version, *hello.labels.keys(), *hello.labels.values(), *hello.holds]
    if any(_FORBIDDEN.search(text) for text in texts):
        raise _fault("the Register contains a control character")
    return hello


async def _frame(socket: WebSocket) -> list[FromWorker]:
    """Receive the next frame. Raises Refused if it is invalid, WebSocketDisconnect at the end."""
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", OVER))
    data = message.get("bytes")
    if data is None:
        raise _fault("text message received; messages must be binary")
    try:
        messages = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _fault(f"invalid frame: {error}") from None
    if len(messages) > MOST_IN_A_FRAME:
        raise _fault(f"a frame has more than {MOST_IN_A_FRAME} messages")
    return messages


def _sort(messages: list[FromWorker]) -> tuple[list[FromWorker], list[Log], list[AskEnds]]:
    """Split messages into reports for the leader, log pieces for the disk and questions for the store."""
    logs: list[Log] = []
    asked: list[AskEnds] = []
    strange = False
    for message in messages:
        kind = type(message)
        if kind is Log:
            logs.append(message)  # type: ignore[arg-type]
        elif kind is AskEnds:
            asked.append(message)  # type: ignore[arg-type]
        elif kind is Result:
            # Only a result's attempt is looked up in the store, which must accept its name.
            strange |= not message.attempt.isprintable()  # type: ignore[union-attr]
        elif kind is Register:
            raise _fault("second Register on the same link")
    if strange:
        raise _fault("an attempt name contains a control character")
    reports = [one for one in messages if type(one) not in _FOR_OTHERS] if logs or asked else messages
    return reports, logs, asked


def _frames(messages: Sequence[ToWorker]) -> list[bytes]:
    """Encode messages as frames that a worker accepts; a single message is never split."""
    frame = _encoder.encode(messages)
    if len(frame) <= _LARGEST_SENT_BYTES or len(messages) == 1:
        return [frame]
    middle = len(messages) // 2
    return [*_frames(messages[:middle]), *_frames(messages[middle:])]


async def _send_soon(socket: WebSocket, frame: bytes) -> None:
    """Send a frame. Raises Refused if the worker does not read it in time."""
    try:
        async with asyncio.timeout(_SEND_SECONDS):
            await socket.send_bytes(frame)
    except TimeoutError:
        raise _fault(f"the worker read nothing for {_SEND_SECONDS:.0f} s") from None


async def _close(socket: WebSocket, code: int, reason: str) -> None:
    # The worker may have closed the link already, or may not be reading.
    with suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await socket.close(code, reason)


def _denial(error: MainspringError) -> Response:
    problem = problems.problem_of(error)
    return Response(msgspec.json.encode(problem), problem.status, media_type=problems.MEDIA_TYPE)


def _fault(why: str) -> Refused:
    return Refused("the link is closed", [Fault(where="frame", why=why)])


def _reason(error: Refused) -> str:
    """Return the reason of an error, short enough for a close frame."""
    text = error.faults[0].why if error.faults else str(error)
    return text.encode()[:_LONGEST_REASON].decode("utf-8", "ignore")
