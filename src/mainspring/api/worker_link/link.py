"""The worker link: a WebSocket at /api/v1/worker-link. Each binary message is a group of messages in msgpack.

    handshake ──auth──► first frame: one Register ──► session ──► closed
                            │                             by the worker, by the leader (its term ends, a newer session),
                            └─► Elsewhere, closed         by this server: a malformed frame, shutdown

1. A frame is decoded once, by types that carry their own limits. An invalid frame closes this link only.
2. Outgoing messages are those that the leader put into this worker's link: none of another worker can be among them.
3. A worker's id belongs to the token under which it is connected, until that link is closed; a worker with a
   certificate owns its id (`api/auth/access.py`).
4. A link ends with the token or certificate that opened it.
5. Browsers are rejected (any Origin header): they would act with the trust of their user's machine.

A frame has thousands of messages: per message, nothing is done, logged or scheduled beyond a type test.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

import msgspec
import structlog
from msgspec.structs import replace
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from mainspring.api.auth.access import VALIDITY_CHECK_SECONDS, Access, SessionValidity, client_of
from mainspring.api.auth.principal import Principal
from mainspring.api.cluster.forwarding import LeaderRouter
from mainspring.api.http import problems
from mainspring.api.logs.logs import LogStore
from mainspring.api.store_time import StoreTimeCache
from mainspring.core.model.worker import CLAIMANT, is_claimant
from mainspring.host.host import Host
from mainspring.host.links import Link
from mainspring.host.loop import Leader
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Fault, Forbidden, MainspringError, NotLeading, Refused, Unavailable
from mainspring.protocol.wire import (
    MAX_FRAME_BYTES,
    Assign,
    Assignment,
    Frame,
    FromWorker,
    Log,
    Redirect,
    Register,
    Result,
    RunEnds,
    RunEndsRequest,
    ToWorker,
)
from mainspring.store.ports.store import Store

log = structlog.get_logger()

PATH = "/api/v1/worker-link"
REGISTER_TIMEOUT_SECONDS = 10.0

NORMAL, MALFORMED, TOO_LARGE, SESSION_ENDED = 1000, 1008, 1009, 1012
"""WebSocket close codes: another server leads; protocol violation by the worker; oversized frame, not received; the
session or the server ends.
"""

MAX_FRAME_MESSAGES = 200_000
_SEND_SECONDS = 30.0
_CLOSE_SECONDS = 5.0
_MESSAGES_PER_SEND = 2_000
_MAX_SENT_BYTES = MAX_FRAME_BYTES // 2
_MAX_REASON_BYTES = 120
_NO_WORK = "{}"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,199}")
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f]")

_NOT_FOR_LEADER = (Log, RunEndsRequest)
"""Messages that the leader does not handle."""

_decoder = msgspec.msgpack.Decoder(Frame)
_encoder = msgspec.msgpack.Encoder()


class WorkerLinks:
    """All worker links of one server."""

    def __init__(
        self, host: Host, access: Access, leaders: LeaderRouter, logs: LogStore, store: Store, time: StoreTimeCache,
        clock: Clock,
    ) -> None:  # fmt: skip
        self._host = host
        self._access = access
        self._leaders = leaders
        self._logs = logs
        self._store = store
        self._time = time
        self._clock = clock
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
        code, reason = SESSION_ENDED, "the session has ended"
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
        principal = await self._access.authenticate(socket)
        self._access.check_worker(principal)
        return principal

    async def _session(self, socket: WebSocket, principal: Principal) -> tuple[int, str]:
        """Register a worker and run its session until one side ends; return the close code and reason."""
        register = await _read_register(socket)
        await self._access.check_worker_name(principal, name=register.worker, pool=register.pool)
        if self._ending:
            return SESSION_ENDED, "the server is stopping"
        try:
            leader = self._host.leader(register.pool)
        except NotLeading:
            address = await self._leaders.leader_address(register.pool) or ""
            log.info("link.elsewhere", worker=register.worker, pool=register.pool, address=address)
            await socket.send_bytes(_encoder.encode([Redirect(address)]))
            return NORMAL, "another server leads the pool"
        link = self._open_session(leader, register, principal)
        log.info("link.opened", worker=register.worker, by=principal.name, client=client_of(socket))
        parts = [
            asyncio.create_task(part)
            for part in (
                self._send(socket, leader, link),
                self._receive(socket, leader, link),
                self._watch(self._access.session(socket)),
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
            log.info("link.closed", worker=register.worker)
        for end in ends:
            if isinstance(end, Exception):
                raise end
        return SESSION_ENDED, "the session has ended"

    def _open_session(self, leader: Leader, register: Register, principal: Principal) -> Link:
        """Open the session. Raises Refused if the worker is connected under another principal."""
        name = f"{principal.tenant} {principal.name}"
        holder = self._open.get(register.worker)
        if holder is not None and holder[0] != name and not holder[1].closed:
            raise Refused(f"worker {register.worker} is connected with another token")
        link = leader.open_link(register)
        self._open[register.worker] = (name, link)
        return link

    async def _send(self, socket: WebSocket, leader: Leader, link: Link) -> None:
        """Send the queued messages of the link until it is closed."""
        while messages := await link.next():
            now = leader.time.now()
            for first in range(0, len(messages), _MESSAGES_PER_SEND):
                chunk = [self._with_tokens(one, now) for one in messages[first : first + _MESSAGES_PER_SEND]]
                for frame in _frames(chunk):
                    await _send_within_timeout(socket, frame)

    def _with_tokens(self, message: ToWorker, now: datetime) -> ToWorker:
        """Add the attempt's token to an assignment, so that tokens are never stored or queued."""
        if type(message) is not Assign:
            return message
        return replace(message, group=tuple([self._with_token(one, now) for one in message.group]))

    def _with_token(self, assignment: Assignment, now: datetime) -> Assignment:
        if assignment.work == _NO_WORK:
            return assignment
        return replace(assignment, token=self._access.attempt_token(assignment.attempt, now))

    async def _watch(self, validity: SessionValidity) -> None:
        """Raise Refused when the worker's token or certificate is no longer valid."""
        while await validity.is_valid():
            await self._clock.sleep(VALIDITY_CHECK_SECONDS)
        raise _fault("the token or certificate is no longer valid")

    async def _receive(self, socket: WebSocket, leader: Leader, link: Link) -> None:
        """Receive messages from the worker until the link is closed. Raises Refused on a protocol violation."""
        while not link.closed:
            reports, logs, questions = _split_by_destination(await _frame(socket))
            leader.receive(link, reports)
            if link.credit < 0:
                raise _fault("result without credit")
            if logs:
                await self._logs.enqueue(link, logs)
            for question in questions:
                link.put(await self._run_ends(question))

    async def _run_ends(self, question: RunEndsRequest) -> RunEnds:
        """Read the ages of ended runs."""
        now = await self._time.now()
        ends: dict[str, float | None] = {}
        for run_id in filter(str.isprintable, question.runs):
            run = await self._store.run(run_id)
            if run is not None:
                ends[run_id] = None if run.ended_at is None else max(0.0, (now - run.ended_at).total_seconds())
        return RunEnds(ends)


async def _read_register(socket: WebSocket) -> Register:
    """Receive the first frame. Raises Refused unless it is one valid Register, in time."""
    try:
        async with asyncio.timeout(REGISTER_TIMEOUT_SECONDS):
            messages = await _frame(socket)
    except TimeoutError:
        raise _fault(f"no Register within {REGISTER_TIMEOUT_SECONDS:.0f} s") from None
    if len(messages) != 1 or not isinstance(register := messages[0], Register):
        raise _fault("the first frame must be exactly one Register")
    for what, name in (("worker", register.worker), ("session", register.session), ("pool", register.pool)):
        if not _NAME.fullmatch(name):
            raise _fault(f"the {what} {name[:40]!r} is not a valid name: use letters, digits and . _ : @ / + -")
    if is_claimant(register.worker):
        raise _fault(f"the name of a worker on a link must not begin with {CLAIMANT}")
    texts = [register.zone, register.version, *register.labels.keys(), *register.labels.values(), *register.holds]
    if any(_FORBIDDEN.search(text) for text in texts):
        raise _fault("the Register contains a control character")
    return register


async def _frame(socket: WebSocket) -> list[FromWorker]:
    """Receive the next frame. Raises Refused if it is invalid, WebSocketDisconnect at the end."""
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", SESSION_ENDED))
    data = message.get("bytes")
    if data is None:
        raise _fault("text message received; messages must be binary")
    try:
        messages = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _fault(f"invalid frame: {error}") from None
    if len(messages) > MAX_FRAME_MESSAGES:
        raise _fault(f"a frame has more than {MAX_FRAME_MESSAGES} messages")
    return messages


def _split_by_destination(messages: list[FromWorker]) -> tuple[list[FromWorker], list[Log], list[RunEndsRequest]]:
    """Split messages into reports for the leader, log pieces for the disk and questions for the store."""
    logs: list[Log] = []
    questions: list[RunEndsRequest] = []
    has_invalid_id = False
    for message in messages:
        kind = type(message)
        if kind is Log:
            logs.append(message)  # type: ignore[arg-type]
        elif kind is RunEndsRequest:
            questions.append(message)  # type: ignore[arg-type]
        elif kind is Result:
            # Only a result's attempt is looked up in the store, which must accept its name.
            has_invalid_id |= not message.attempt.isprintable()  # type: ignore[union-attr]
        elif kind is Register:
            raise _fault("second Register on the same link")
    if has_invalid_id:
        raise _fault("an attempt name contains a control character")
    reports = [one for one in messages if type(one) not in _NOT_FOR_LEADER] if logs or questions else messages
    return reports, logs, questions


def _frames(messages: Sequence[ToWorker]) -> list[bytes]:
    """Encode messages as frames that a worker accepts; a single message is never split."""
    frame = _encoder.encode(messages)
    if len(frame) <= _MAX_SENT_BYTES or len(messages) == 1:
        return [frame]
    middle = len(messages) // 2
    return [*_frames(messages[:middle]), *_frames(messages[middle:])]


async def _send_within_timeout(socket: WebSocket, frame: bytes) -> None:
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
    return text.encode()[:_MAX_REASON_BYTES].decode("utf-8", "ignore")
