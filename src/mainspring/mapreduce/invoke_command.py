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
from mainspring.mapreduce.answers import LONGEST_ANSWER
from mainspring.protocol.errors import MainspringError, Refused, TaskError

_STDIN, _STDOUT = 0, 1
_OUTPUTS = 2
_TAIL_BYTES = 2_048
_MISTAKES = frozenset({77, 78, 126, 127})
"""Exit codes that are permanent for every item: no permission, configuration, not executable, not found."""

_PASSING = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY})
"""Errors of starting a program that may pass."""


class Command:
    """Runs the program once per prompt, in its own session."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = tuple(words)

    async def ask(self, prompt: str) -> str:
        """Return the program's output. On cancellation its process group is killed.

        Raises Refused if the program is at fault and not the prompt.
        """
        loop = asyncio.get_running_loop()
        try:
            transport, talk = await loop.subprocess_exec(_Talk, *self._words, start_new_session=True)
        except OSError as error:
            message = f"cannot start invoker {self._words[0]}: {error.strerror}"
            if error.errno in _PASSING:
                raise TaskError(message, failure="transient") from None
            raise Refused(message) from None
        try:
            # A program may exit without reading all of it.
            with suppress(BrokenPipeError, ConnectionResetError):
                stdin = cast("asyncio.WriteTransport", transport.get_pipe_transport(_STDIN))
                stdin.write(prompt.encode("utf-8", "replace"))
                stdin.close()
            await talk.over
        finally:
            await talk.end()
            transport.close()
        code = transport.get_returncode()
        if code != 0:
            raise self._failed(code or 0, talk.complaint)
        return bytes(talk.answer).decode(errors="replace")

    async def close(self) -> None:
        """No-op."""

    def _failed(self, code: int, complaint: bytes) -> MainspringError:
        ended = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
        lines = complaint.decode(errors="replace").strip().splitlines()
        said = f": {shorten(lines[-1])}" if lines else ""
        message = f"invoker {self._words[0]} {ended}{said}"
        return Refused(message) if code in _MISTAKES else TaskError(message, failure="transient")


class _Talk(asyncio.SubprocessProtocol):
    """Collects the output of a program until it has exited."""

    def __init__(self) -> None:
        self.answer = bytearray()
        self.complaint = b""
        """The end of its stderr."""
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pid = 0
        self._open = _OUTPUTS
        self._has_ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the pid."""
        self._pid = cast("asyncio.SubprocessTransport", transport).get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Collect output."""
        if fd != _STDOUT:
            self.complaint = (self.complaint + data)[-_TAIL_BYTES:]
            return
        self.answer += data
        if len(self.answer) > LONGEST_ANSWER and not self.over.done():
            message = f"the invoker's output exceeds {LONGEST_ANSWER} bytes"
            self.over.set_exception(TaskError(message, failure="transient"))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """A pipe was closed."""
        self._open -= fd != _STDIN
        self._settle()

    def process_exited(self) -> None:
        """Kill leftover processes, which would keep the pipes open."""
        self._has_ended.set()
        _kill_group(self._pid)
        self._settle()

    async def end(self) -> None:
        """Kill the process group, unless the program has exited."""
        if not self._has_ended.is_set():
            _kill_group(self._pid)
            await self._has_ended.wait()

    def _settle(self) -> None:
        if self._has_ended.is_set() and self._open <= 0 and not self.over.done():
            self.over.set_result(None)


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
