"""The supervisor: parent of every process of an attempt.

`python -m mainspring.worker.supervisor.supervisor STATE_DIR`

It outlives the agent: running attempts continue, and a new agent gets their real results (WRK-10). The protocol is in
`supervisor_wire.py`; the supervisor makes no decisions.

1. One agent at a time: a newer connection replaces the older one.
2. An `AttemptEnded` is in the file `results` before it is sent, and stays in memory until it is acknowledged.
3. Without an agent it stops all attempts and exits, before the server reschedules them (WRK-10). That is some seconds
   after the last heartbeat; `ServerContact` says how many. If the server had been silent for longer already, it is down
   or has rescheduled them: then a new agent has `orphan_seconds`.
4. It never imports users' code: children do (SEC-3).
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
import sys
from collections.abc import Iterable
from datetime import timedelta
from itertools import chain
from pathlib import Path

import structlog

from mainspring.core.work.isolation import Isolation
from mainspring.core.work.work import (
    Argv,
    HttpCall,
    ImportedFunction,
    InContainer,
    MapReduce,
    ServedFunction,
    ShellText,
)
from mainspring.event_loop import fast_loop, start_task
from mainspring.protocol.clock import Clock, SystemClock
from mainspring.protocol.errors import Broken
from mainspring.telemetry.log_output import configure_logging
from mainspring.unix_sockets import private_listener
from mainspring.worker.artifacts.transfer import Artifacts
from mainspring.worker.executors.attempt_files import clear_leftovers
from mainspring.worker.executors.command import CommandExecutor
from mainspring.worker.executors.container import ContainerExecutor
from mainspring.worker.executors.executor import Runtime
from mainspring.worker.executors.http_call import HttpExecutor
from mainspring.worker.executors.map_reduce import MapExecutor
from mainspring.worker.executors.python.python_executor import FunctionExecutor
from mainspring.worker.executors.remote.clusters import cluster_executors
from mainspring.worker.executors.secret_values import Secrets
from mainspring.worker.sandbox.prctl import become_subreaper, disable_dumps
from mainspring.worker.sandbox.sandbox import Sandboxes
from mainspring.worker.supervisor import supervisor_wire as wire
from mainspring.worker.supervisor.attempt_runner import AttemptRunner
from mainspring.worker.supervisor.frames import FrameReader, encode_frame
from mainspring.worker.supervisor.process_groups import Processes, kill_with_marker, supervisor_marker
from mainspring.worker.supervisor.result_spool import ResultSpool, portions
from mainspring.worker.supervisor.supervisor_settings import LOCK_FILE, SOCKET_FILE, read_settings, try_lock

log = structlog.get_logger(__name__)

MAX_BACKLOG_BYTES = 4 * 1024 * 1024
"""Unread bytes to an agent before new messages wait."""
_CLOSE_SECONDS = 2.0
_MARGIN_SECONDS = 1.0
"""Time to kill processes after their grace period, on a busy machine."""


class Supervisor:
    """Executes the agent's requests, and reports the attempts' events."""

    def __init__(self, state_dir: Path, clock: Clock, sandboxes: Sandboxes) -> None:
        self._clock = clock
        self._settings = sandboxes.settings
        self._sandboxes = sandboxes
        processes = Processes(clock)
        runtime = Runtime(
            state_dir=state_dir,
            settings=self._settings,
            clock=clock,
            processes=processes,
            secrets=Secrets(processes, dict(os.environ)),
            sandboxes=sandboxes,
            artifacts=Artifacts(state_dir, self._settings),
        )
        commands, functions = CommandExecutor(runtime), FunctionExecutor(runtime)
        self._containers = ContainerExecutor(runtime)
        self._runner = AttemptRunner(
            {
                Argv: commands,
                ShellText: commands,
                ImportedFunction: functions,
                ServedFunction: functions,
                MapReduce: MapExecutor(runtime),
                InContainer: self._containers,
                HttpCall: HttpExecutor(runtime),
                **cluster_executors(runtime),
            },
            self._send,
        )
        self._results = ResultSpool(state_dir / "results")
        self._latest: dict[tuple[type, str], wire.AboutRunning] = {}
        """The latest checkpoint, progress and extension request of each attempt, for the next agent."""
        self._unsent: list[wire.FromSupervisor] = []
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._agent: asyncio.StreamWriter | None = None
        self._waiting_for_agent: asyncio.Task[None] | None = None
        self._orphan_deadline = 0.0
        """When attempts without an agent have to be stopped, by the server's limit. Monotonic."""
        self._draining: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._close_grace_seconds = 0.0

    async def serve(self) -> None:
        """Run until closed, or without an agent for too long. The working directory is the state directory."""
        server = await asyncio.start_unix_server(self._accept, sock=private_listener(Path(SOCKET_FILE)))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._closing.set)
        self._waiting_for_agent = self._wait_for_agent()
        self._containers.clear_leftovers()
        await self._closing.wait()
        await self._runner.end_all(self._close_grace_seconds)
        self._sandboxes.end()
        self._flush()
        server.close()
        for writer in self._connections:
            writer.close()
        if self._connections:
            await asyncio.wait(self._connections.values(), timeout=_CLOSE_SECONDS)
        self._waiting_for_agent.cancel()

    # agent connections

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Accept a connection."""
        if not _is_same_user(writer.get_extra_info("socket")):
            writer.close()
            return
        writer.transport.set_write_buffer_limits(high=MAX_BACKLOG_BYTES)
        self._connections[writer] = start_task(self._listen(reader, writer), "agent_listener")

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Process an agent's messages until it disconnects."""
        messages: FrameReader[wire.FromAgent] = FrameReader(reader, list[wire.FromAgent])
        try:
            while received := await messages.next():
                if isinstance(received[0], wire.Hello):
                    self._change_agent(writer)
                if self._agent is not writer:
                    break
                self._handle(received)
                await writer.drain()
        except (ConnectionError, Broken) as error:
            log.info("agent.lost", because=str(error))
        finally:
            writer.close()
            del self._connections[writer]
            if self._agent is writer:
                self._agent = None
                self._waiting_for_agent = self._wait_for_agent()

    def _change_agent(self, writer: asyncio.StreamWriter) -> None:
        if self._agent is not None and self._agent is not writer:
            self._agent.close()
        if self._waiting_for_agent is not None:
            self._waiting_for_agent.cancel()
        if self._draining is not None:
            self._draining.cancel()
        self._agent = writer

    def _wait_for_agent(self) -> asyncio.Task[None]:
        """Close unless an agent connects in time."""

        left = self._orphan_deadline - self._clock.monotonic()
        seconds = left if left > 0 else self._settings.orphan_seconds

        async def wait() -> None:
            await self._clock.sleep(seconds)
            log.warning("supervisor.orphaned", seconds=round(seconds, 1))
            self._close_grace_seconds = self._settings.orphan_grace_seconds
            self._closing.set()

        return start_task(wait(), "orphan_timer")

    # messages

    def _handle(self, messages: Iterable[wire.FromAgent]) -> None:
        for message in messages:
            match message:
                case wire.Hello():
                    self._send_inventory()
                case wire.Launch() if self._closing.is_set():
                    log.info("supervisor.closing", not_launched=len(message.requests))
                case wire.Launch():
                    self._launch(message)
                case wire.EndAttempt():
                    if handle := self._runner.handles.get(message.attempt):
                        handle.stop(message.grace_seconds)
                case wire.Prolong():
                    self._forget(message.attempt, wire.ExtensionRequested)
                    if handle := self._runner.handles.get(message.attempt):
                        handle.prolong(self._clock.wall() + timedelta(seconds=message.seconds))
                case wire.WithdrawAttempts():
                    self._withdraw(message)
                case wire.Acknowledge():
                    self._results.forget(message.attempts)
                    for attempt in message.attempts if self._latest else ():
                        self._forget(attempt, wire.CheckpointSaved)
                case wire.ServerContact():
                    reserved = self._settings.orphan_grace_seconds + _MARGIN_SECONDS
                    self._orphan_deadline = self._clock.monotonic() + message.lost_after_seconds - reserved
                case wire.Close():
                    self._closing.set()

    def _launch(self, message: wire.Launch) -> None:
        """Launch attempts that are not here yet."""
        for request in message.requests:
            attempt = request.assignment.attempt
            if attempt not in self._runner.handles and attempt not in self._results:
                self._runner.launch(request)

    def _withdraw(self, message: wire.WithdrawAttempts) -> None:
        withdrawn = {one: None for one in message.attempts if self._runner.withdraw(one)}
        if withdrawn:
            self._send(wire.Withdrawn(tuple(withdrawn)))
        if refused := tuple(one for one in message.attempts if one not in withdrawn):
            self._send(wire.WithdrawRefused(refused))

    def _send_inventory(self) -> None:
        """Send a new agent everything: the attempts here, and messages that the former agent may not have passed on.

        A result that does not fit into the frame, or has a checkpoint before it, follows separately: until then the
        attempt is listed as started.
        """
        handles = [one for one in self._runner.handles.values() if not one.has_ended]
        at_once: list[wire.AttemptEnded] = []
        later: list[wire.AttemptEnded] = []
        for end in self._results.all():
            (later if (wire.CheckpointSaved, end.attempt) in self._latest else at_once).append(end)
        first, *others = portions(at_once) or [()]
        later = [*chain.from_iterable(others), *later]
        inventory = wire.Inventory(
            tuple(one.attempt for one in handles if not one.has_started),
            (*(one.attempt for one in handles if one.has_started), *(end.attempt for end in later)),
            tuple(first),
        )
        self._unsent = [inventory, *self._latest.values(), *later]
        self._flush()

    def _send(self, message: wire.FromSupervisor) -> None:
        """Queue a message to the agent. Messages of one loop iteration are sent together."""
        match message:
            case wire.AttemptEnded():
                self._results.add(message)
                if self._latest:
                    self._forget(message.attempt, wire.ProgressReported, wire.ExtensionRequested)
            case wire.CheckpointSaved() | wire.ProgressReported() | wire.ExtensionRequested():
                self._latest[type(message), message.attempt] = message
            case _:
                pass
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(message)

    def _forget(self, attempt: str, *kinds: type) -> None:
        for kind in kinds:
            self._latest.pop((kind, attempt), None)

    def _flush(self) -> None:
        self._results.flush()
        if self._draining is not None and not self._closing.is_set():
            return
        messages, self._unsent = self._unsent, []
        if messages and self._agent is not None and not self._agent.is_closing():
            for portion in portions(messages):
                self._agent.write(encode_frame(portion))
            if self._agent.transport.get_write_buffer_size() > MAX_BACKLOG_BYTES:
                self._draining = start_task(self._drain(self._agent), "backlog_drain")

    async def _drain(self, writer: asyncio.StreamWriter) -> None:
        """Hold back messages until the agent has read most of the backlog."""
        try:
            await writer.drain()
        except ConnectionError:
            pass  # the listener handles it
        finally:
            self._draining = None
            self._flush()


def main() -> None:
    """Run a supervisor for the directory given as the only argument."""
    state_dir = Path(sys.argv[1]).resolve()
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    state_dir.chmod(0o700)
    os.chdir(state_dir)
    configure_logging("json", "debug")
    if try_lock(Path(LOCK_FILE)) is None:
        sys.exit("another supervisor uses this directory")
    if os.getpgrp() != os.getpid():
        os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    become_subreaper()
    killed = kill_with_marker(supervisor_marker(state_dir))
    if killed:
        log.warning("supervisor.found_orphans", killed=killed)
    clear_leftovers(state_dir)
    settings = read_settings(state_dir)
    if settings.isolation is not Isolation.NONE:
        disable_dumps()
    sandboxes = Sandboxes(state_dir, settings)
    sandboxes.prepare()
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(_serve(state_dir, sandboxes))
    Path(SOCKET_FILE).unlink(missing_ok=True)


async def _serve(state_dir: Path, sandboxes: Sandboxes) -> None:
    await Supervisor(state_dir, SystemClock(), sandboxes).serve()


def _is_same_user(connection: socket.socket) -> bool:
    """Check the peer's user, in case the socket's mode was changed."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    return bool(uid == os.getuid())


if __name__ == "__main__":
    main()
