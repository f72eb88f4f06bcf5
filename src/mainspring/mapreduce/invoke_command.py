"""A program that answers prompts: the prompt on its stdin, the answer on its stdout."""

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
"""Exit codes that stay, for every item: no permission, configuration, not executable, not found."""

_PASSING = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY})
"""Why a program can't be started now, and perhaps later."""


class Command:
    """Starts the program once for each prompt, in a session of its own."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = tuple(words)

    async def ask(self, prompt: str) -> str:
        """What the program prints. When nobody waits any longer, it is killed with its whole group.

        Raises Refused if it is not the prompt that is wrong but the program.
        """
        loop = asyncio.get_running_loop()
        try:
            transport, talk = await loop.subprocess_exec(_Talk, *self._words, start_new_session=True)
        except OSError as error:
            message = f"the invoker {self._words[0]} can't be started: {error.strerror}"
            if error.errno in _PASSING:
                raise TaskError(message, failure="transient") from None
            raise Refused(message) from None
        try:
            # A program may end without having read all of it.
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
        """Nothing is kept."""

    def _failed(self, code: int, complaint: bytes) -> MainspringError:
        ended = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
        lines = complaint.decode(errors="replace").strip().splitlines()
        said = f": {shorten(lines[-1])}" if lines else ""
        message = f"the invoker {self._words[0]} {ended}{said}"
        return Refused(message) if code in _MISTAKES else TaskError(message, failure="transient")


class _Talk(asyncio.SubprocessProtocol):
    """Takes what a program prints, until it has ended and all of it is read."""

    def __init__(self) -> None:
        self.answer = bytearray()
        self.complaint = b""
        """The end of what came on stderr."""
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pid = 0
        self._open = _OUTPUTS
        self._has_ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It runs."""
        self._pid = cast("asyncio.SubprocessTransport", transport).get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """It printed something."""
        if fd != _STDOUT:
            self.complaint = (self.complaint + data)[-_TAIL_BYTES:]
            return
        self.answer += data
        if len(self.answer) > LONGEST_ANSWER and not self.over.done():
            message = f"the invoker prints more than {LONGEST_ANSWER} bytes"
            self.over.set_exception(TaskError(message, failure="transient"))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """One of its pipes is closed, at both ends."""
        self._open -= fd != _STDIN
        self._settle()

    def process_exited(self) -> None:
        """It ended. What it left behind would hold its pipes open."""
        self._has_ended.set()
        _kill_group(self._pid)
        self._settle()

    async def end(self) -> None:
        """Kill it, with its group, if it has not ended."""
        if not self._has_ended.is_set():
            _kill_group(self._pid)
            await self._has_ended.wait()

    def _settle(self) -> None:
        if self._has_ended.is_set() and self._open <= 0 and not self.over.done():
            self.over.set_result(None)


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
