"""Processes that a guard left behind when it died: found by pid and start time, and killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

import psutil
import structlog

from mainspring.worker.held import Running

log = structlog.get_logger()

_SAME_SECONDS = 0.05
_WAIT_SECONDS = 5.0


def created(pid: int) -> float:
    """When a process was created, or 0 if it is gone: with its pid it names a process for ever."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return 0.0


def kill_strays(strays: Iterable[Running]) -> None:
    """Kill the processes of these attempts, with their groups and their children, and wait until they are gone."""
    victims: list[psutil.Process] = []
    for stray in strays:
        process = _find(stray)
        if process is None:
            continue
        log.warning("stray.killed", attempt=stray.attempt, pid=stray.pid)
        victims += [process, *_children(process)]
        _kill_group(process.pid)
    for victim in victims:
        try:
            victim.kill()
        except psutil.Error as error:
            log.info("stray.gone", pid=victim.pid, error=str(error))
    _, alive = psutil.wait_procs(victims, timeout=_WAIT_SECONDS)
    for victim in alive:
        log.error("stray.alive", pid=victim.pid)


def _find(stray: Running) -> psutil.Process | None:
    """The process of an attempt, if it is still that one: pids are used again."""
    if stray.pid <= 1 or stray.created == 0.0:
        return None
    try:
        process = psutil.Process(stray.pid)
        return process if abs(process.create_time() - stray.created) < _SAME_SECONDS else None
    except psutil.Error:
        return None


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def _kill_group(pid: int) -> None:
    """Kill the group that a process leads, if it leads one."""
    try:
        if os.getpgid(pid) == pid and pid != os.getpgrp():
            os.killpg(pid, signal.SIGKILL)
    except OSError as error:
        log.info("stray.gone", pid=pid, error=str(error))
