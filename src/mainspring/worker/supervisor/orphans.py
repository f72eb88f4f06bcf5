"""Processes left by a supervisor that died: find them by pid and start time, and kill them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

import psutil
import structlog

from mainspring.worker.agent.instructions import Record
from mainspring.worker.supervisor.process_groups import kill_group

log = structlog.get_logger()

_START_TIME_TOLERANCE_SECONDS = 0.05
_WAIT_SECONDS = 5.0
_MAX_CACHED = 1_000
_STAT_BYTES = 4_096
_START_FIELD = 19
"""Field 22 of /proc/<pid>/stat, counted from the one after the program's name."""


def created(pid: int) -> float:
    """Return when a process was started, or 0 if it is gone. With its pid it identifies a process."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return 0.0


class ProcessStartTimes:
    """Cache of process start times. A warm child is looked up repeatedly, which costs 13 us instead of 54."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[bytes, float]] = {}

    def of(self, pid: int) -> float:
        """Return `created` of a process."""
        ticks = _start_ticks(pid)
        known = self._known.get(pid)
        if known is not None and ticks and known[0] == ticks:
            return known[1]
        if len(self._known) >= _MAX_CACHED:
            self._known.clear()
        since = created(pid)
        self._known[pid] = (ticks, since)
        return since


def _start_ticks(pid: int) -> bytes:
    """Return the start time field of /proc; empty if the process is gone, or not on Linux."""
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        # The program's name is in parentheses, and may contain anything.
        return os.read(file, _STAT_BYTES).rpartition(b")")[2].split()[_START_FIELD]
    except (OSError, IndexError):
        return b""
    finally:
        os.close(file)


def kill_orphans(orphans: Iterable[Record]) -> None:
    """Kill the processes of these attempts, with their groups and children, and wait until they are gone."""
    victims: list[psutil.Process] = []
    for orphan in orphans:
        process = _find(orphan)
        if process is None:
            continue
        log.warning("orphan.killed", attempt=orphan.attempt, pid=orphan.pid)
        victims += [process, *_children(process)]
        kill_group(process.pid, signal.SIGKILL)
    for victim in victims:
        try:
            victim.kill()
        except psutil.Error as error:
            log.info("orphan.gone", pid=victim.pid, error=str(error))
    _, alive = psutil.wait_procs(victims, timeout=_WAIT_SECONDS)
    for victim in alive:
        log.error("orphan.alive", pid=victim.pid)


def _find(orphan: Record) -> psutil.Process | None:
    """Return the process of an attempt, unless its pid was reused."""
    if orphan.pid <= 1 or orphan.created == 0.0:
        return None
    try:
        process = psutil.Process(orphan.pid)
        return process if abs(process.create_time() - orphan.created) < _START_TIME_TOLERANCE_SECONDS else None
    except psutil.Error:
        return None


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []
