"""HTTP and mail servers for tests of channels: they record requests and give configured answers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import NamedTuple

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from mainspring.core.model.alerts import AlertKind, Severity
from mainspring.core.model.notices import Notice, NoticeState

AT = datetime(2026, 3, 1, 6, 30, tzinfo=UTC)


def notice(
    *, state: NoticeState = NoticeState.FIRING, severity: Severity = Severity.HIGH, summary: str = "load is held"
) -> Notice:
    """A notice to send."""
    return Notice(
        id="alert_018f3c2e9a41-9d2c44e1f0a7b35c",
        state=state,
        kind=AlertKind.QUARANTINED,
        severity=severity,
        tenant="acme",
        summary=summary,
        details={"run": "run_1", "kills": 3},
        opened_at=AT,
        resolved_at=AT if state is NoticeState.RESOLVED else None,
        link="http://mainspring.example/api/v1/runs/run_1",
    )


class Request(NamedTuple):
    """A recorded HTTP request."""

    line: str
    headers: dict[str, str]
    body: bytes


class HttpServer:
    """Records every request and gives one answer."""

    def __init__(self) -> None:
        self.got: list[Request] = []
        self._news: asyncio.Queue[Request] = asyncio.Queue()
        self.status = "204 No Content"
        self.more_headers: Sequence[str] = ()
        self.body = b""
        self.endless = False
        """Whether its response body never ends."""
        self.silent = False
        """Whether it never answers."""
        self.port = 0
        self.connections = 0
        """Number of connections, also without a request."""

    async def next(self) -> Request:
        """Wait for the next request."""
        async with asyncio.timeout(30.0):
            return await self._news.get()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one request of a connection."""
        self.connections += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.got.append(Request(head[0], headers, body))
            self._news.put_nowait(self.got[-1])
            if self.silent:
                await reader.read()
            length = () if self.endless else (f"content-length: {len(self.body)}",)
            answer = "\r\n".join([f"HTTP/1.1 {self.status}", "connection: close", *length, *self.more_headers, "", ""])
            writer.write(answer.encode() + self.body)
            while self.endless and not writer.is_closing():
                writer.write(b"x" * 65_536)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # some tests disconnect early
        finally:
            writer.close()


@asynccontextmanager
async def http_server(tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator[HttpServer]:
    """Run an HTTP server on a free port."""
    kept = HttpServer()
    async with await asyncio.start_server(kept.serve, host, 0, ssl=tls) as server:
        kept.port = server.sockets[0].getsockname()[1]
        yield kept


class SmtpServer:
    """Records mails; knows one user."""

    def __init__(self) -> None:
        self.got: list[Envelope] = []
        self._news: asyncio.Queue[Envelope] = asyncio.Queue()
        self.refuses: set[str] = set()
        self.logins: list[tuple[bytes, bytes]] = []
        self.port = 0

    async def next(self) -> Envelope:
        """The next mail, when it is there."""
        async with asyncio.timeout(30.0):
            return await self._news.get()

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Accept or refuse a recipient."""
        if address in self.refuses:
            return "550 unknown recipient"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """Record a mail."""
        self.got.append(envelope)
        self._news.put_nowait(envelope)
        return "250 OK"

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: object
    ) -> AuthResult:
        """Accept only `mailer` with `right`."""
        assert isinstance(data, LoginPassword)
        self.logins.append((data.login, data.password))
        return AuthResult(success=data.password == b"right", handled=False)


@asynccontextmanager
async def smtp_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[SmtpServer]:
    """Run a mail server on a free port; with `tls` it requires STARTTLS and a password."""
    kept = SmtpServer()

    def connection() -> SMTP:
        return SMTP(
            kept,
            hostname="mail.test",
            tls_context=tls,
            require_starttls=tls is not None,
            auth_required=tls is not None,
            authenticator=kept.authenticate if tls is not None else None,
        )

    async with await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0) as server:
        kept.port = server.sockets[0].getsockname()[1]
        yield kept
