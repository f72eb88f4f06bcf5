"""The supervisor: parent of every process of an attempt.

`python -m mainspring.worker.supervisor.supervisor STATE_DIR`

It outlives the agent: running attempts continue, and a new agent gets their real results (WRK-10). The protocol is in
`supervisor_wire.py`; the supervisor makes no decisions.

1. One agent at a time: a newer connection replaces the older one.
2. An `Ended` is in the file `results` before it is sent, and stays in memory until it is acknowledged.
3. Without an agent for `orphan_seconds` it stops all attempts and exits.
4. It never imports users' code: children do (SEC-3).
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import struct
import sys
from collections.abc import Iterable
from datetime import timedelta
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
from mainspring.protocol.clock import Clock, MachineClock
from mainspring.protocol.errors import Broken
from mainspring.worker.executors.attempt_files import clear_leftovers
from mainspring.worker.executors.command import CommandExecutor
from mainspring.worker.executors.container import ContainerExecutor
from mainspring.worker.executors.http_call import HttpExecutor
from mainspring.worker.executors.map_reduce import MapExecutor
from mainspring.worker.executors.python.python_executor import FunctionExecutor
from mainspring.worker.executors.remote.clusters import cluster_executors
from mainspring.worker.executors.secret_values import Secrets
from mainspring.worker.sandbox.prctl import become_subreaper, close_to_others
from mainspring.worker.sandbox.sandbox import Cells
from mainspring.worker.supervisor.frames import FrameReader, encode_frame
from mainspring.worker.supervisor.process_groups import Processes, guard_mark, kill_marked
from mainspring.worker.supervisor.result_spool import Ends, portions
from mainspring.worker.supervisor.running import Running
from mainspring.worker.supervisor.supervisor_settings import SOCKET_FILE, read_settings
from mainspring.worker.supervisor.supervisor_wire import (
    Asked,
    Began,
    Close,
    End,
    Ended,
    FromAgent,
    FromGuard,
    Hello,
    Holding,
    Kept,
    Launch,
    Moved,
    Prolong,
    Saved,
    Taken,
    Unbegun,
    Unlaunch,
)

log = structlog.get_logger(__name__)

LARGEST_BACKLOG_BYTES = 4 * 1024 * 1024
"""Unread bytes to an agent before new messages wait."""
_FAREWELL_SECONDS = 2.0


class Guard:
    """Executes the agent's requests, and reports the attempts' events."""

    def __init__(self, state_dir: Path, clock: Clock, cells: Cells) -> None:
        self._clock = clock
        self._settings = cells.settings
        self._cells = cells
        processes = Processes(clock)
        secrets = Secrets(processes, dict(os.environ), self._settings.secret_prefix)
        commands = CommandExecutor(state_dir, self._settings, clock, processes, secrets, cells)
        functions = FunctionExecutor(state_dir, self._settings, clock, processes, secrets, cells)
        maps = MapExecutor(state_dir, self._settings, clock, processes, secrets, cells)
        self._containers = ContainerExecutor(state_dir, self._settings, clock, processes, secrets, cells)
        self._running = Running(
            {
                Argv: commands,
                ShellText: commands,
                ImportedFunction: functions,
                ServedFunction: functions,
                MapReduce: maps,
                InContainer: self._containers,
                HttpCall: HttpExecutor(state_dir, self._settings, clock, secrets),
                **cluster_executors(state_dir, self._settings, clock, secrets),
            },
            self._say,
        )
        self._ends = Ends(state_dir / "results")
        self._saved: dict[str, Saved] = {}
        self._moved: dict[str, Moved] = {}
        self._asked: dict[str, Asked] = {}
        self._unsaid: list[FromGuard] = []
        self._meetings: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._agent: asyncio.StreamWriter | None = None
        self._waiting_for_agent: asyncio.Task[None] | None = None
        self._draining: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._close_grace_seconds = 0.0

    async def serve(self) -> None:
        """Run until closed, or without an agent for too long. The working directory is the state directory."""
        server = await asyncio.start_unix_server(self._meet, sock=_listening_socket())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._closing.set)
        self._waiting_for_agent = self._wait_for_agent()
        self._containers.clear_leftovers()
        await self._closing.wait()
        await self._running.end_all(self._close_grace_seconds)
        self._cells.end()
        self._flush()
        server.close()
        for writer in self._meetings:
            writer.close()
        if self._meetings:
            await asyncio.wait(self._meetings.values(), timeout=_FAREWELL_SECONDS)
        self._waiting_for_agent.cancel()

    # agent connections

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Accept a connection."""
        if not _is_same_user(writer.get_extra_info("socket")):
            writer.close()
            return
        writer.transport.set_write_buffer_limits(high=LARGEST_BACKLOG_BYTES)
        self._meetings[writer] = start_task(self._listen(reader, writer), "agent_listener")

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Process an agent's messages until it disconnects."""
        words: FrameReader[FromAgent] = FrameReader(reader, list[FromAgent])
        try:
            while heard := await words.next():
                if isinstance(heard[0], Hello):
                    self._change_agent(writer)
                if self._agent is not writer:
                    break
                self._hear(heard)
                await writer.drain()
        except (ConnectionError, Broken) as error:
            log.info("agent.lost", because=str(error))
        finally:
            writer.close()
            del self._meetings[writer]
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

        async def wait() -> None:
            await self._clock.sleep(self._settings.orphan_seconds)
            log.warning("supervisor.orphaned", seconds=self._settings.orphan_seconds)
            self._close_grace_seconds = self._settings.orphan_grace_seconds
            self._closing.set()

        return start_task(wait(), "orphan_timer")

    # messages

    def _hear(self, words: Iterable[FromAgent]) -> None:
        for word in words:
            match word:
                case Hello():
                    self._tell_all()
                case Launch() if self._closing.is_set():
                    log.info("supervisor.closing", not_launched=len(word.orders))
                case Launch():
                    self._launch(word)
                case End():
                    self._running.stop(word.attempt, word.grace_seconds)
                case Prolong():
                    self._asked.pop(word.attempt, None)
                    self._running.prolong(word.attempt, self._clock.wall() + timedelta(seconds=word.seconds))
                case Unlaunch():
                    given = {one for one in word.attempts if self._running.withdraw(one)}
                    if given:
                        self._say(Unbegun(tuple(one for one in word.attempts if one in given)))
                    if kept := tuple(one for one in word.attempts if one not in given):
                        self._say(Kept(kept))
                case Taken():
                    self._ends.forget(word.attempts)
                    for attempt in word.attempts:
                        self._saved.pop(attempt, None)
                case Close():
                    self._closing.set()

    def _launch(self, word: Launch) -> None:
        """Launch attempts that are not here yet."""
        for order in word.orders:
            attempt = order.assignment.attempt
            if attempt not in self._running.jobs and attempt not in self._ends:
                self._running.launch(order)

    def _tell_all(self) -> None:
        """Send a new agent everything: the attempts here, and messages that the former agent may not have passed on.

        A result that does not fit into the frame, or has a checkpoint before it, follows separately: until then the
        attempt is listed as started.
        """
        jobs = [job for job in self._running.jobs.values() if not job.is_over]
        first, *others = portions([end for end in self._ends.all() if end.attempt not in self._saved]) or [()]
        later = [end for portion in others for end in portion]
        later += [end for end in self._ends.all() if end.attempt in self._saved]
        holding = Holding(
            tuple(job.attempt for job in jobs if not job.has_begun),
            tuple(job.attempt for job in jobs if job.has_begun) + tuple(end.attempt for end in later),
            tuple(first),
        )
        self._unsaid = [holding, *self._saved.values(), *self._moved.values(), *self._asked.values(), *later]
        self._flush()

    def _say(self, word: FromGuard) -> None:
        """Queue a message to the agent. Messages of one loop iteration are sent together."""
        match word:
            case Ended():
                self._ends.add(word)
                self._moved.pop(word.attempt, None)
                self._asked.pop(word.attempt, None)
            case Saved():
                self._saved[word.attempt] = word
            case Moved():
                self._moved[word.attempt] = word
            case Asked():
                self._asked[word.attempt] = word
            case Began() | Holding() | Unbegun() | Kept():
                pass
        if not self._unsaid:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsaid.append(word)

    def _flush(self) -> None:
        self._ends.flush()
        if self._draining is not None and not self._closing.is_set():
            return
        words, self._unsaid = self._unsaid, []
        if words and self._agent is not None and not self._agent.is_closing():
            for portion in portions(words):
                self._agent.write(encode_frame(portion))
            if self._agent.transport.get_write_buffer_size() > LARGEST_BACKLOG_BYTES:
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
    _log_to_stderr()
    lock = os.open("guard.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("another supervisor uses this directory")
    if os.getpgrp() != os.getpid():
        os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    become_subreaper()
    killed = kill_marked(guard_mark(state_dir))
    if killed:
        log.warning("supervisor.found_orphans", killed=killed)
    clear_leftovers(state_dir)
    settings = read_settings(state_dir)
    if settings.isolation is not Isolation.NONE:
        close_to_others()
    cells = Cells(state_dir, settings)
    cells.prepare()
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(_serve(state_dir, cells))
    Path(SOCKET_FILE).unlink(missing_ok=True)


async def _serve(state_dir: Path, cells: Cells) -> None:
    await Guard(state_dir, MachineClock(), cells).serve()


def _log_to_stderr() -> None:
    """Log JSON lines. Tracebacks have no variable values: they may be secrets."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper("iso"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _listening_socket() -> socket.socket:
    """Return a socket in the working directory that only this user can connect to. Its path is always short."""
    Path(SOCKET_FILE).unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(SOCKET_FILE)
    finally:
        os.umask(before)
    return listening


def _is_same_user(connection: socket.socket) -> bool:
    """Check the peer's user, in case the socket's mode was changed."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    return bool(uid == os.getuid())


if __name__ == "__main__":
    main()
