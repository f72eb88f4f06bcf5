"""Invoker program: the prompt on its stdin, the answer on its stdout."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

from mainspring.core.expressions.engine import shorten
from mainspring.mapreduce.answers import MAX_ANSWER_LENGTH
from mainspring.protocol.errors import MainspringError, Refused, TaskError

_STDIN, _STDOUT = 0, 1
_OUTPUTS = 2
_TAIL_BYTES = 2_048
_PERMANENT_CODES = frozenset({77, 78, 126, 127})
"""Exit codes that are permanent for every item: no permission, configuration, not executable, not found."""

_TRANSIENT_ERRNOS = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY})
"""Errors of starting a program that may pass."""


class CommandInvoker:
    """Runs the program once per prompt, in its own session."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = tuple(argv)

    async def ask(self, prompt: str) -> str:
        """Return the program's output. On cancellation its process group is killed.

        Raises Refused if the program is at fault and not the prompt.
        """
        loop = asyncio.get_running_loop()
        try:
            transport, conversation = await loop.subprocess_exec(_Conversation, *self._argv, start_new_session=True)
        except OSError as error:
            message = f"cannot start invoker {self._argv[0]}: {error.strerror}"
            if error.errno in _TRANSIENT_ERRNOS:
                raise TaskError(message, failure="transient") from None
            raise Refused(message) from None
        try:
            # A program may exit without reading all of it.
            with suppress(BrokenPipeError, ConnectionResetError):
                stdin = cast("asyncio.WriteTransport", transport.get_pipe_transport(_STDIN))
                stdin.write(prompt.encode("utf-8", "replace"))
                stdin.close()
            await conversation.finished
        finally:
            await conversation.end()
            transport.close()
        code = transport.get_returncode()
        if code != 0:
            raise self._failed(code or 0, conversation.stderr_tail)
        return bytes(conversation.answer).decode(errors="replace")

    async def close(self) -> None:
        """No-op."""

    def _failed(self, code: int, stderr_tail: bytes) -> MainspringError:
        ended = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
        lines = stderr_tail.decode(errors="replace").strip().splitlines()
        detail = f": {shorten(lines[-1])}" if lines else ""
        message = f"invoker {self._argv[0]} {ended}{detail}"
        return Refused(message) if code in _PERMANENT_CODES else TaskError(message, failure="transient")


class _Conversation(asyncio.SubprocessProtocol):
    """Collects the output of a program until it has exited."""

    def __init__(self) -> None:
        self.answer = bytearray()
        self.stderr_tail = b""
        """The end of its stderr."""
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pid = 0
        self._open = _OUTPUTS
        self._has_ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the pid."""
        self._pid = cast("asyncio.SubprocessTransport", transport).get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Collect output."""
        if fd != _STDOUT:
            self.stderr_tail = (self.stderr_tail + data)[-_TAIL_BYTES:]
            return
        self.answer += data
        if len(self.answer) > MAX_ANSWER_LENGTH and not self.finished.done():
            message = f"the invoker's output exceeds {MAX_ANSWER_LENGTH} bytes"
            self.finished.set_exception(TaskError(message, failure="transient"))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """A pipe was closed."""
        self._open -= fd != _STDIN
        self._finish_if_done()

    def process_exited(self) -> None:
        """Kill leftover processes, which would keep the pipes open."""
        self._has_ended.set()
        _kill_group(self._pid)
        self._finish_if_done()

    async def end(self) -> None:
        """Kill the process group, unless the program has exited."""
        if not self._has_ended.is_set():
            _kill_group(self._pid)
            await self._has_ended.wait()

    def _finish_if_done(self) -> None:
        if self._has_ended.is_set() and self._open <= 0 and not self.finished.done():
            self.finished.set_result(None)


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
