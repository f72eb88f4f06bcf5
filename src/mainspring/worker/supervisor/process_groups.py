"""Processes of attempts: started in sessions of their own, waited for, and killed with all that they started.

The guard is a subreaper: what a task leaves behind, however it detached itself, becomes the guard's own child, and is
found by the mark that it has in its environment. A direct child dies with the guard, whatever kills the guard.

1. Only `Processes` waits for children, so that no exit status is lost to somebody else.
2. After `clear` nothing runs that was started under its mark. (Elsewhere than on Linux: nothing of its group.)
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from mainspring.protocol.clock import Clock
from mainspring.worker.sandbox.prctl import die_with_parent
from mainspring.worker.sandbox.sandbox import Cell

_ON_LINUX = sys.platform == "linux"
_KILLED_TIMES = 400
"""So often what is left is looked for and killed, 5 ms apart, before the guard goes on regardless: a process that the
kernel can't end (it hangs in a device) must not hold up the others."""


def children_of(pid: int) -> list[int]:
    """The processes whose parent this one is."""
    found: list[int] = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        pass  # It is gone, or this system does not tell: the group is killed in any case.
    return found


def descendants_of(pid: int) -> list[int]:
    """All processes below this one."""
    found = children_of(pid)
    for one in found:
        found += children_of(one)
    return found


def carries(pid: int, mark: bytes) -> bool:
    """Whether a process has this text in the environment it was started with."""
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def guard_variable(state_dir: Path) -> dict[str, str]:
    """The variable by which all processes of one guard can be found when it is gone."""
    return {"MAINSPRING_GUARD": str(state_dir)}


def guard_mark(state_dir: Path) -> bytes:
    """The same, as it stands in a process's environment."""
    return b"MAINSPRING_GUARD=" + bytes(state_dir) + b"\0"


def kill_marked(mark: bytes) -> int:
    """Kill every process of this user that carries the mark: what a guard that was killed has left. How many it was."""
    killed = 0
    for entry in Path("/proc").iterdir() if _ON_LINUX else ():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and carries(int(entry.name), mark):
            killed += _send(int(entry.name), signal.SIGKILL)
    return killed


class Processes:
    """The children of this process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._exits: dict[int, asyncio.Future[int]] = {}
        self._handles: dict[int, subprocess.Popen[bytes]] = {}
        self._keepers: set[int] = set()
        self._cells: dict[int, Cell] = {}
        loop = asyncio.get_running_loop()
        # uvloop keeps SIGCHLD from `add_signal_handler`. A turn of the loop reaps, never the handler itself: the child
        # that it would meet may be one whose pid nobody has noted yet.
        signal.signal(signal.SIGCHLD, lambda _number, _frame: _reap_soon(loop, self.reap))

    def spawn(
        self,
        words: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path,
        output: int,
        errors: int | None = None,
        keep: Sequence[int] = (),
        keeps_orphans: bool = False,
        cell: Cell | None = None,
    ) -> int:
        """Start a program in a session of its own; its pid. Raises OSError or Refused if that can't be done.

        One that `keeps_orphans` is a subreaper itself: while it lives, nothing below it comes to us. So is everything
        in a sandbox. One in a `cell` is killed with all that is in there.
        """
        if cell is not None:
            words = cell.words(words, directory)
            cell.unlock()
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output if errors is None else errors,
                env=environment,
                cwd=directory,
                pass_fds=keep,
                start_new_session=True,
                # A few system calls, and nothing that takes a lock.
                preexec_fn=die_with_parent if cell is None else cell.enter,  # noqa: PLW1509
            )
        except subprocess.SubprocessError as error:
            raise OSError(errno.EPERM, "it can't be confined here") from error
        finally:
            if cell is not None:
                cell.lock()
        self._handles[process.pid] = process
        if cell is not None:
            self._cells[process.pid] = cell
            keeps_orphans = keeps_orphans or cell.confinement.is_sandbox()
        if keeps_orphans:
            self._keepers.add(process.pid)
        self._exits[process.pid] = asyncio.get_running_loop().create_future()
        return process.pid

    async def exit_of(self, pid: int) -> int:
        """How a process that `spawn` started ended: its exit code, or minus the signal. May be asked until `forget`."""
        return await asyncio.shield(self._exits[pid])

    def has_ended(self, pid: int) -> bool:
        """Whether the process is gone, as far as the kernel knows by now."""
        self.reap()
        return self._exits[pid].done()

    def forget(self, pid: int) -> None:
        """Nobody will ask for this process any more."""
        self._exits.pop(pid, None)
        self._cells.pop(pid, None)

    def ask_to_end(self, pid: int) -> None:
        """SIGTERM to the whole group of a process; in a sandbox to all but the one that holds it together."""
        cell = self._cells.get(pid)
        if cell is not None and cell.confinement.is_sandbox():
            for one in descendants_of(pid):
                _send(one, signal.SIGTERM)
        else:
            _kill_group(pid, signal.SIGTERM)

    def kill(self, pid: int) -> None:
        """SIGKILL to the whole group of a process, and to all in its cell."""
        _kill_group(pid, signal.SIGKILL)
        self._kill_cell(pid)

    async def clear(self, pid: int, mark: bytes) -> None:
        """Kill a process, its group, and all that carries the mark; come back when nothing of it runs."""
        for _ in range(_KILLED_TIMES):
            below = descendants_of(pid)
            _kill_group(pid, signal.SIGKILL)
            is_in_cell = self._kill_cell(pid)
            strays = self._strays(mark)
            for one in (*below, *strays, *(two for stray in strays for two in descendants_of(stray))):
                _send(one, signal.SIGKILL)
            self.reap()
            if not below and not strays and not is_in_cell and not _group_lives(pid):
                return
            await self._clock.sleep(0.005)

    def reap(self) -> None:
        """Take the exit status of every child that is gone."""
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
                self._keepers.discard(pid)
            done = self._exits.get(pid)
            if done is not None and not done.done():
                done.set_result(code)

    def _kill_cell(self, pid: int) -> bool:
        """Kill what is in the cell of a process; whether something was."""
        cell = self._cells.get(pid)
        return cell is not None and cell.cgroup is not None and cell.cgroup.kill()

    def _strays(self, mark: bytes) -> list[int]:
        """Children that nobody here started and that carry the mark.

        One that has wiped its environment can't be told from those of other tasks: it is one of them when nothing
        runs beside it that it could belong to.
        """
        strays = [pid for pid in children_of(os.getpid()) if pid not in self._handles]
        is_alone = len(self._handles) == len(self._keepers)
        return [pid for pid in strays if is_alone or carries(pid, mark)]


def _reap_soon(loop: asyncio.AbstractEventLoop, reap: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(reap)


def _send(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _kill_group(group: int, number: signal.Signals) -> None:
    # Nothing of it is left, or what is left has changed its user: then the next look finds it.
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
