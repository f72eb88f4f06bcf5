"""Invoker function of another process, behind a Unix socket: client and server.

    one connection per prompt, one line of JSON each way:
    ──► {"prompt": "Sort: ..."}
    ◄── {"answer": "..."}   or   {"error": "...", "failure": "rate_limited", "retry_after_seconds": 20}

Only this user can connect to the socket.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import msgspec

from mainspring.core.expressions.engine import shorten
from mainspring.mapreduce.answers import MAX_ANSWER_LENGTH
from mainspring.mapreduce.invoke_function import AnswerFunction, FunctionInvoker
from mainspring.mapreduce.prompts import MAX_PROMPT_LENGTH
from mainspring.protocol.errors import TaskError
from mainspring.unix_sockets import private_listener, short_path

_MAX_LINE_BYTES = 8 * max(MAX_ANSWER_LENGTH, MAX_PROMPT_LENGTH)
"""In bytes: an escaped character takes at most six."""


class PromptRequest(msgspec.Struct, frozen=True):
    """A prompt for the function."""

    prompt: str


class PromptReply(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Its answer or error."""

    answer: str | None = None
    error: str | None = None
    failure: str = "transient"
    retry_after_seconds: float | None = None


class SocketInvoker:
    """Sends prompts to a socket."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def ask(self, prompt: str) -> str:
        """Return the function's answer."""
        try:
            with short_path(self._path) as path:
                reader, writer = await asyncio.open_unix_connection(path, limit=_MAX_LINE_BYTES)
            try:
                writer.write(msgspec.json.encode(PromptRequest(prompt)) + b"\n")
                await writer.drain()
                answered = msgspec.json.decode(await reader.readline(), type=PromptReply)
            finally:
                writer.close()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else "connection closed"
            raise TaskError(f"invoker {self._path} does not respond: {why}", failure="transient") from None
        if answered.answer is None:
            failure = answered.failure if answered.failure in TaskError.FAILURES else "transient"
            raise TaskError(
                answered.error or "no answer", failure=failure, retry_after_seconds=answered.retry_after_seconds
            )
        return answered.answer

    async def close(self) -> None:
        """No-op: each prompt has its own connection."""


class AnswerSocket:
    """Server side: answers prompts with a function until it is closed.

    Used by `PipelineScheduler(ai_invoker=..)`, so that the function runs in the process that defines it.
    """

    def __init__(self, path: Path, function: AnswerFunction) -> None:
        self._path = path
        self._invoke = FunctionInvoker(function)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen, replacing an existing socket."""
        listening = private_listener(self._path)
        self._server = await asyncio.start_unix_server(self._serve, sock=listening, limit=_MAX_LINE_BYTES)

    async def close(self) -> None:
        """Close all connections."""
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        try:
            writer.write(msgspec.json.encode(await self._answer(await reader.readline())) + b"\n")
            await writer.drain()
        except (OSError, ValueError):
            pass  # The client disconnected or sent garbage; it gets no answer.
        finally:
            self._connections.discard(connection)
            with suppress(OSError):
                writer.close()

    async def _answer(self, line: bytes) -> PromptReply:
        request = msgspec.json.decode(line, type=PromptRequest)
        try:
            return PromptReply(answer=await self._invoke.ask(request.prompt))
        except TaskError as error:
            return PromptReply(
                error=shorten(str(error)), failure=error.failure, retry_after_seconds=error.retry_after_seconds
            )
