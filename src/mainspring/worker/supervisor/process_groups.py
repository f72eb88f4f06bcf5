"""Task processes: start them in their own sessions, wait for them, kill them with all descendants.

The supervisor is a subreaper: processes that detach from a task become its children, and are found by the marker in
their environment. Direct children die with the supervisor, however it ends.

1. Only `Processes` waits for children, so that no exit status is lost.
2. After `clear` no process with its marker runs. (Outside Linux: no process of its group.)
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from mainspring.protocol.clock import Clock
from mainspring.worker.sandbox.prctl import die_with_parent
from mainspring.worker.sandbox.sandbox import Sandbox

_ON_LINUX = sys.platform == "linux"
_MAX_KILL_ROUNDS = 400
"""Kill rounds, 5 ms apart, before the supervisor gives up: a process that the kernel can't end (blocked in a device)
must not block the others."""


def children_of(pid: int) -> list[int]:
    """Return the child processes of a process."""
    found: list[int] = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        pass  # Gone, or not supported: the group is killed in any case.
    return found


def descendants_of(pid: int) -> list[int]:
    """Return all descendants of a process."""
    found = children_of(pid)
    for one in found:
        found += children_of(one)
    return found


def has_marker(pid: int, marker: bytes) -> bool:
    """Whether a process was started with this text in its environment."""
    try:
        return marker in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def supervisor_variable(state_dir: Path) -> dict[str, str]:
    """Return the variable that marks all processes of one supervisor."""
    return {"MAINSPRING_SUPERVISOR": str(state_dir)}


def supervisor_marker(state_dir: Path) -> bytes:
    """Return the same as it appears in a process's environment."""
    return b"MAINSPRING_SUPERVISOR=" + bytes(state_dir) + b"\0"


def kill_with_marker(marker: bytes) -> int:
    """Kill all processes of this user with the marker: leftovers of a killed supervisor. Return their number."""
    killed = 0
    for entry in Path("/proc").iterdir() if _ON_LINUX else ():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and has_marker(int(entry.name), marker):
            killed += _send(int(entry.name), signal.SIGKILL)
    return killed


class Processes:
    """Child processes of this process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._exits: dict[int, asyncio.Future[int]] = {}
        self._handles: dict[int, subprocess.Popen[bytes]] = {}
        self._subreapers: set[int] = set()
        self._sandboxes: dict[int, Sandbox] = {}
        loop = asyncio.get_running_loop()
        # uvloop does not support SIGCHLD in `add_signal_handler`. The loop reaps, not the handler itself, which could
        # meet a child whose pid is not recorded yet.
        signal.signal(signal.SIGCHLD, lambda _number, _frame: _reap_soon(loop, self.reap))

    def spawn(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path,
        output: int,
        errors: int | None = None,
        keep: Sequence[int] = (),
        keeps_orphans: bool = False,
        sandbox: Sandbox | None = None,
    ) -> int:
        """Start a program in its own session; return its pid. Raises OSError or Refused.

        With `keeps_orphans` it is a subreaper itself, as is every sandbox: while it lives, its descendants do not
        become our children. A process in a `sandbox` is killed with everything inside.
        """
        if sandbox is not None:
            argv = sandbox.argv(argv, directory)
            sandbox.open_entrances()
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output if errors is None else errors,
                env=environment,
                cwd=directory,
                pass_fds=keep,
                start_new_session=True,
                # A few system calls, and no locks.
                preexec_fn=die_with_parent if sandbox is None else sandbox.enter,  # noqa: PLW1509
            )
        except subprocess.SubprocessError as error:
            raise OSError(errno.EPERM, "confinement failed") from error
        finally:
            if sandbox is not None:
                sandbox.close_entrances()
        self._handles[process.pid] = process
        if sandbox is not None:
            self._sandboxes[process.pid] = sandbox
            keeps_orphans = keeps_orphans or sandbox.confinement.is_sandbox()
        if keeps_orphans:
            self._subreapers.add(process.pid)
        self._exits[process.pid] = asyncio.get_running_loop().create_future()
        return process.pid

    async def run(
        self, argv: Sequence[str], environment: Mapping[str, str], *, seconds: float, max_bytes: int
    ) -> tuple[int, bytes]:
        """Run a helper program; return its exit code and output. Raises OSError, or TimeoutError: it was killed."""
        with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as unread:
            pid = self.spawn(
                argv, environment=environment, directory=Path("/"), output=printed.fileno(), errors=unread.fileno()
            )
            try:
                async with asyncio.timeout(seconds):
                    code = await self.exit_of(pid)
            finally:
                self.kill(pid)
                self.forget(pid)
            printed.seek(0)
            return code, printed.read(max_bytes)

    async def exit_of(self, pid: int) -> int:
        """Wait for a spawned process; return its exit code, or minus the signal. Valid until `forget`."""
        return await asyncio.shield(self._exits[pid])

    def has_ended(self, pid: int) -> bool:
        """Whether the process has exited."""
        self.reap()
        return self._exits[pid].done()

    def forget(self, pid: int) -> None:
        """Drop the exit status of a process."""
        self._exits.pop(pid, None)
        self._sandboxes.pop(pid, None)

    def terminate(self, pid: int) -> None:
        """Send SIGTERM to the process group; in a sandbox to all processes but the sandbox's own."""
        sandbox = self._sandboxes.get(pid)
        if sandbox is not None and sandbox.confinement.is_sandbox():
            for one in descendants_of(pid):
                _send(one, signal.SIGTERM)
        else:
            kill_group(pid, signal.SIGTERM)

    def kill(self, pid: int) -> None:
        """Send SIGKILL to the process group, and to everything in its sandbox."""
        kill_group(pid, signal.SIGKILL)
        self._kill_sandbox(pid)

    async def clear(self, pid: int, marker: bytes) -> None:
        """Kill a process, its group and all processes with the marker; return when none is left."""
        for _ in range(_MAX_KILL_ROUNDS):
            below = descendants_of(pid)
            kill_group(pid, signal.SIGKILL)
            is_in_sandbox = self._kill_sandbox(pid)
            orphans = self._orphans(marker)
            for one in (*below, *orphans, *(two for orphan in orphans for two in descendants_of(orphan))):
                _send(one, signal.SIGKILL)
            self.reap()
            if not below and not orphans and not is_in_sandbox and not _group_lives(pid):
                return
            await self._clock.sleep(0.005)

    def reap(self) -> None:
        """Collect the exit status of every exited child."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            handle = self._handles.pop(pid, None)
            if handle is not None:
                handle.returncode = code
                self._subreapers.discard(pid)
            done = self._exits.get(pid)
            if done is not None and not done.done():
                done.set_result(code)

    def _kill_sandbox(self, pid: int) -> bool:
        """Kill the processes in a sandbox; whether there were any."""
        sandbox = self._sandboxes.get(pid)
        return sandbox is not None and sandbox.cgroup is not None and sandbox.cgroup.kill()

    def _orphans(self, marker: bytes) -> list[int]:
        """Return children that were not spawned here and have the marker.

        An orphan that has wiped its environment can't be attributed: it counts when no other attempt is running.
        """
        orphans = [pid for pid in children_of(os.getpid()) if pid not in self._handles]
        is_alone = len(self._handles) == len(self._subreapers)
        return [pid for pid in orphans if is_alone or has_marker(pid, marker)]


def _reap_soon(loop: asyncio.AbstractEventLoop, reap: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(reap)


def _send(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def kill_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group, if there is one."""
    # No process left, or one that changed its user: the next round finds it.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
