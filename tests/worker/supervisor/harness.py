"""Test harness: a supervisor process, and the agent's side of its protocol.

Starting a supervisor takes about half a second of CPU time. Tests that do not end, kill or orphan it share a running
one: `SupervisorHarness.share` connects to it as a new agent, and `SupervisorHarness.end` leaves it empty.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from typing import TypeVar

import msgspec

from mainspring.protocol.wire import Assignment
from mainspring.worker.sandbox.prctl import die_with_parent
from mainspring.worker.supervisor.frames import FrameReader, write_frame
from mainspring.worker.supervisor.process_groups import has_marker, supervisor_marker
from mainspring.worker.supervisor.supervisor_settings import SupervisorSettings, log_path
from mainspring.worker.supervisor.supervisor_wire import (
    Acknowledge,
    AttemptEnded,
    Close,
    EndAttempt,
    FromAgent,
    FromSupervisor,
    Hello,
    Inventory,
    Launch,
    LaunchRequest,
)

DEADLINE_SECONDS = 30
_POLL_SECONDS = 0.02
_MAX_SHARED = 3
W = TypeVar("W", bound=FromSupervisor)


class SharedSupervisor:
    """A supervisor shared by successive tests. It dies with the test process."""

    def __init__(self, directory: Path, code: str, variables: dict[str, str], settings: dict[str, object]) -> None:
        directory.mkdir()
        self.state_dir, self.code_dir = directory / "state", directory / "code"
        write_settings(self.state_dir, self.code_dir, code, {"orphan_seconds": 1e9, **settings})
        self._process = subprocess.Popen(
            supervisor_command(self.state_dir),
            env={**os.environ, **variables},
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call
        )

    @property
    def pid(self) -> int:
        """The supervisor's pid."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def end(self) -> None:
        """End it, and check that no process remains."""
        self._process.terminate()
        self._process.wait(DEADLINE_SECONDS)
        assert marked(self.state_dir) == []


class SharedSupervisors:
    """Supervisors shared in this process: one per module, code, variables and settings; few at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._supervisors: OrderedDict[str, SharedSupervisor] = OrderedDict()
        self._made = 0

    def get(self, module: str, code: str, variables: dict[str, str], settings: dict[str, object]) -> SharedSupervisor:
        """Return the supervisor with these settings, started if needed. The least recently used one is ended for it."""
        key = repr((module, code, sorted(variables.items()), sorted(settings.items())))
        if key in self._supervisors and not self._supervisors[key].is_alive():
            del self._supervisors[key]
        if key not in self._supervisors:
            if len(self._supervisors) >= _MAX_SHARED:
                self._supervisors.popitem(last=False)[1].end()
            self._made += 1
            self._supervisors[key] = SharedSupervisor(self._directory / str(self._made), code, variables, settings)
        self._supervisors.move_to_end(key)
        return self._supervisors[key]

    def drop(self, supervisor: SharedSupervisor) -> None:
        """End a supervisor that a test did not leave empty."""
        self._supervisors = OrderedDict((key, one) for key, one in self._supervisors.items() if one is not supervisor)
        supervisor.end()

    def end(self) -> None:
        """End all."""
        while self._supervisors:
            self._supervisors.popitem()[1].end()


class SupervisorHarness:
    """Starts a supervisor, sends it messages as an agent, and records its messages."""

    _attempts = itertools.count(1)
    """Across tests: a shared supervisor knows the attempts of earlier tests."""

    def __init__(
        self, state_dir: Path, code_dir: Path, *, supervisors: SharedSupervisors | None = None, module: str = ""
    ) -> None:
        self.state_dir = state_dir
        self.own_dir = state_dir.parent
        """A directory for this test only, even if the supervisor is shared."""
        self._code_dir = code_dir
        self._supervisors = supervisors
        self._module = module
        self._shared: SharedSupervisor | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._news = asyncio.Condition()
        self.received: list[FromSupervisor] = []

    async def start(self, *, code: str = "", variables: dict[str, str] | None = None, **settings: object) -> Inventory:
        """Start the supervisor and connect. `code` is the module `work`, which functions are imported from."""
        assert self._shared is None
        write_settings(self.state_dir, self._code_dir, code, settings)
        self._process = await asyncio.create_subprocess_exec(
            *supervisor_command(self.state_dir), env={**os.environ, **(variables or {})}, start_new_session=True
        )
        return await self.connect()

    async def share(self, *, code: str = "", variables: dict[str, str] | None = None, **settings: object) -> None:
        """Connect to the shared supervisor with these settings. It is empty.

        Not for tests that end or kill the supervisor, or leave it without an agent.
        """
        assert self._supervisors is not None
        await self.end()
        self._shared = self._supervisors.get(self._module, code, variables or {}, settings)
        self.state_dir = self._shared.state_dir
        assert await self.connect() == Inventory((), (), ())

    async def connect(self) -> Inventory:
        """Connect as a new agent; return the inventory."""
        reader, writer = await self._open()
        older, self._writer = self._writer, writer
        self._reading = asyncio.create_task(self._read(FrameReader(reader, list[FromSupervisor])))
        before = len(self.received)
        self.say(Hello())
        inventory = await self.receives(Inventory, after=before)
        await _close(older)
        return inventory

    def disconnect(self) -> None:
        """Close the connection, as an agent that dies."""
        assert self._writer is not None
        self._writer.close()

    def say(self, *messages: FromAgent) -> None:
        """Send messages in one frame."""
        assert self._writer is not None
        write_frame(self._writer, messages)

    def launch(self, *works: object, lease: str | None = None, **fields: object) -> list[str]:
        """Launch works, one after another; return the attempts."""
        requests = [self.order(work, lease or f"lease-{next(self._attempts)}", **fields) for work in works]
        if lease is None:
            requests = [msgspec.structs.replace(order, lease=requests[0].lease) for order in requests]
        self.say(Launch(tuple(requests)))
        return [order.assignment.attempt for order in requests]

    def order(self, work: object, lease: str, **fields: object) -> LaunchRequest:
        """Create a launch request."""
        attempt = f"att_{next(self._attempts)}"
        values: dict[str, object] = {
            "attempt": attempt, "task": "task_1", "run": "run_1", "tenant": "acme", "name": "load", "number": 1,
            "work": json.dumps(work), "params": "{}", "inputs": {}, **fields,
        }  # fmt: skip
        return LaunchRequest(Assignment(**values), lease)  # type: ignore[arg-type]

    async def receives(self, kind: type[W], attempt: str | None = None, *, after: int = 0) -> W:
        """Wait for the first message of this kind about this attempt."""
        async with asyncio.timeout(DEADLINE_SECONDS), self._news:
            while True:
                for message in self.received[after:]:
                    if isinstance(message, kind) and (attempt is None or getattr(message, "attempt", None) == attempt):
                        return message
                await self._news.wait()

    async def receives_more(self, after: int) -> None:
        """Wait for more than `after` messages."""
        async with asyncio.timeout(DEADLINE_SECONDS), self._news:
            await self._news.wait_for(lambda: len(self.received) > after)

    async def ends(self, work: object, **fields: object) -> AttemptEnded:
        """Run this work; return its end."""
        return await self.receives(AttemptEnded, self.launch(work, lease=None, **fields)[0])

    def log(self, attempt: str) -> str:
        """Return the log of an attempt."""
        path = log_path(self.state_dir, attempt)
        return path.read_text() if path.exists() else ""

    async def wait_for_log(self, attempt: str, text: str) -> None:
        """Wait until an attempt's log contains this."""
        await self.wait_for_content(log_path(self.state_dir, attempt), text)

    async def wait_for_content(self, path: Path, text: str) -> None:
        """Wait until a file contains this."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not path.exists() or text not in path.read_text():  # noqa: ASYNC110, ASYNC240 - another process writes it
                await asyncio.sleep(_POLL_SECONDS)

    @property
    def pid(self) -> int:
        """The supervisor's pid."""
        if self._shared is not None:
            return self._shared.pid
        assert self._process is not None
        return self._process.pid

    async def wait_for_exit(self) -> int:
        """Wait for the supervisor's exit code."""
        assert self._process is not None
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await self._process.wait()

    async def end(self) -> None:
        """End the supervisor, if it runs; leave a shared one empty for the next test."""
        if self._shared is not None:
            await self._leave_shared(self._shared)
        elif self._process is not None and self._process.returncode is None:
            if self._writer is not None and not self._writer.is_closing():
                self.say(Close())
            else:
                self._process.send_signal(signal.SIGTERM)
            await self.wait_for_exit()
        await _close(self._writer)

    def running_processes(self) -> list[int]:
        """Return the processes of this supervisor; without warm children if it is shared."""
        return [pid for pid in marked(self.state_dir) if self._shared is None or not _is_warm_child(pid)]

    async def wait_until_idle(self) -> None:
        """Wait until no process of an attempt remains."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while self.running_processes():  # noqa: ASYNC110 - other processes end
                await asyncio.sleep(_POLL_SECONDS)

    async def wait_until_reaped(self, pid: int) -> None:
        """Wait until a process has exited and was reaped."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while Path(f"/proc/{pid}").exists():  # noqa: ASYNC110, ASYNC240 - another process ends
                await asyncio.sleep(_POLL_SECONDS)

    async def _leave_shared(self, supervisor: SharedSupervisor) -> None:
        """End this test's attempts and acknowledge all results. Anything left then is an error of the supervisor."""
        assert self._supervisors is not None
        try:
            before = len(self.received)
            inventory = await self.connect()
            running = (*inventory.waiting, *inventory.began)
            self.say(*(EndAttempt(attempt, 0.0) for attempt in running))
            for attempt in running:
                await self.receives(AttemptEnded, attempt, after=before)
            self.say(Acknowledge((*running, *(end.attempt for end in inventory.ended))))
            assert await self.connect() == Inventory((), (), ())
        except BaseException:
            self._supervisors.drop(supervisor)
            raise

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        directory = os.open(self.state_dir, os.O_RDONLY)
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while True:
                    try:
                        return await asyncio.open_unix_connection(f"/proc/self/fd/{directory}/supervisor.sock")
                    except (FileNotFoundError, ConnectionRefusedError):
                        await asyncio.sleep(_POLL_SECONDS)
        finally:
            os.close(directory)

    async def _read(self, messages: FrameReader[FromSupervisor]) -> None:
        while received := await _next(messages):
            async with self._news:
                self.received += received
                self._news.notify_all()


def write_settings(state_dir: Path, code_dir: Path, code: str, settings: dict[str, object]) -> None:
    """Write the supervisor's settings, and the module `work` with the functions."""
    state_dir.mkdir(parents=True, exist_ok=True)
    code_dir.mkdir(exist_ok=True)
    (code_dir / "work.py").write_text(dedent(code))
    given = msgspec.convert({"children": 1, "python_path": (str(code_dir),), **settings}, SupervisorSettings)
    (state_dir / "supervisor.json").write_bytes(msgspec.json.encode(given))


def supervisor_command(state_dir: Path) -> list[str]:
    """Return the command line of a supervisor."""
    return [sys.executable, "-m", "mainspring.worker.supervisor.supervisor", str(state_dir)]


def marked(state_dir: Path) -> list[int]:
    """Return the processes of this directory's supervisor."""
    mark = supervisor_marker(state_dir.resolve())
    return [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit() and has_marker(int(one.name), mark)]


def _is_warm_child(pid: int) -> bool:
    with suppress(OSError):
        return b"mainspring.worker.executors.python.child" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return True  # gone meanwhile


async def _next(messages: FrameReader[FromSupervisor]) -> list[FromSupervisor]:
    try:
        return await messages.next()
    except ConnectionError:
        return []


async def _close(writer: asyncio.StreamWriter | None) -> None:
    if writer is not None:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
