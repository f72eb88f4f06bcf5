"""The agent's end of the supervisor socket: connects to a running supervisor, or starts one."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import structlog

from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Broken, MainspringError
from mainspring.unix_sockets import short_path
from mainspring.worker.supervisor.frames import FrameReader, write_frame
from mainspring.worker.supervisor.supervisor_settings import SOCKET_FILE
from mainspring.worker.supervisor.supervisor_wire import FromAgent, FromSupervisor, Hello, Inventory

log = structlog.get_logger()

START_SECONDS = 15.0
_POLL_SECONDS = 0.02
_SPAWN_SECONDS = 0.2
"""Minimum time between two starts of a supervisor."""
_SECRETS = frozenset({"MAINSPRING_API_KEY", "MAINSPRING_WORKER__JOIN"})
"""Variables with the worker's credentials: no process that runs tasks gets them."""


class SupervisorLink:
    """Connection to the supervisor of a state directory."""

    def __init__(self, state_dir: Path, clock: Clock) -> None:
        self._state_dir = state_dir
        self._clock = clock
        self._writer: asyncio.StreamWriter | None = None
        self._frames: FrameReader[FromSupervisor] | None = None
        self._buffered: list[FromSupervisor] = []
        self._pid = 0
        """Pid of the supervisor that was started here, until it has ended."""

    async def open(self) -> Inventory:
        """Connect to a running or new supervisor, and ask for its attempts. Raises Broken if none answers."""
        await self.close()
        deadline = self._clock.monotonic() + START_SECONDS
        next_spawn = 0.0
        while True:
            try:
                return await self._handshake()
            except OSError as error:
                if self._clock.monotonic() > deadline:
                    raise Broken(f"no supervisor answers: {error}; see {self._state_dir / 'supervisor.err'}") from error
            # An earlier supervisor may be exiting and still hold the lock: then it takes several attempts.
            if not self._is_running() and self._clock.monotonic() >= next_spawn:
                self._spawn()
                next_spawn = self._clock.monotonic() + _SPAWN_SECONDS
            await self._clock.sleep(_POLL_SECONDS)

    async def next(self) -> list[FromSupervisor]:
        """Return the supervisor's next messages; empty if the connection is lost."""
        if self._buffered:
            messages, self._buffered = self._buffered, []
            return messages
        if self._frames is None:
            return []
        try:
            return await self._frames.next()
        except (OSError, MainspringError) as error:
            log.warning("supervisor.unreadable", error=str(error))
            return []

    def send(self, messages: Sequence[FromAgent]) -> None:
        """Send messages. If the connection is lost, `next` reports it."""
        if self._writer is not None and not self._writer.is_closing():
            write_frame(self._writer, messages)

    async def close(self) -> None:
        """Close the connection. The supervisor waits a while for another agent."""
        writer, self._writer, self._frames = self._writer, None, None
        if writer is not None:
            writer.close()
            try:
                await writer.wait_closed()
            except OSError as error:
                log.info("supervisor.connection_lost", error=str(error))

    async def ended(self, seconds: float) -> None:
        """Wait at most `seconds` until the closed supervisor has exited."""
        try:
            async with asyncio.timeout(seconds):
                while await self.next() or self._is_running():
                    await self._clock.sleep(_POLL_SECONDS)
        except TimeoutError:
            log.warning("supervisor.not_ended", seconds=seconds)

    async def _handshake(self) -> Inventory:
        """Send hello and return the supervisor's inventory. Raises OSError if it does not answer."""
        with short_path(self._state_dir.absolute() / SOCKET_FILE) as path:
            reader, writer = await asyncio.open_unix_connection(path)
        frames: FrameReader[FromSupervisor] = FrameReader(reader, list[FromSupervisor])
        write_frame(writer, [Hello()])
        try:
            async with asyncio.timeout(START_SECONDS):
                messages = await frames.next()
        except TimeoutError as error:
            writer.close()
            raise ConnectionResetError("the supervisor does not answer") from error
        if not messages or not isinstance(messages[0], Inventory):
            writer.close()
            raise ConnectionResetError("the supervisor closed the connection")
        self._writer, self._frames, self._buffered = writer, frames, messages[1:]
        return messages[0]

    def _spawn(self) -> None:
        """Start a supervisor in a new session: it outlives this process, and gets none of its signals."""
        environment = {name: value for name, value in os.environ.items() if name not in _SECRETS}
        errors = str(self._state_dir / "supervisor.err")
        self._pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "mainspring.worker.supervisor.supervisor", str(self._state_dir.absolute())],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        log.info("supervisor.spawned", pid=self._pid)

    def _is_running(self) -> bool:
        """Whether the supervisor started here still runs. One that was found running is not our child."""
        if self._pid and os.waitpid(self._pid, os.WNOHANG)[0]:
            self._pid = 0
        return self._pid != 0
