"""CPU use by the measured system, by the benchmark, and by other processes.

A figure is marked if other processes used a quarter of a core or more. It may still be correct, but has to be measured
again on an idle machine before it is compared.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import NamedTuple

import psutil

LIMIT_CORES = 0.25


class Reading(NamedTuple):
    """Seconds, all of them counted from some moment in the past."""

    at: float
    machine: float
    """Of all cores, by whomever; what another machine on the same hardware took from us is in it."""
    ours: float
    """Of this process, and of all that it has started."""
    system: float
    """Only of what it has started: the system, with its store."""


class Spent(NamedTuple):
    """What happened between two readings."""

    seconds: float
    system_cpu: float
    foreign_cores: float


def between(before: Reading, after: Reading) -> Spent:
    """What was spent by whom. The kernel counts in hundredths of a second, so a little below zero is zero."""
    seconds = max(after.at - before.at, 1e-6)
    foreign = (after.machine - before.machine) - (after.ours - before.ours)
    return Spent(seconds, max(0.0, after.system - before.system), max(0.0, foreign / seconds))


def is_disturbed(foreign_cores: float) -> bool:
    """Was so much done by others that the figure has to be marked?"""
    return foreign_cores >= LIMIT_CORES


def read_load() -> Reading:
    """How things stand now."""
    times = psutil.cpu_times()
    machine = times.user + times.system + times.nice + getattr(times, "steal", 0.0)
    own = psutil.Process(os.getpid())
    system = _cpu_of(own.children(recursive=True))
    mine = own.cpu_times()
    return Reading(time.monotonic(), machine, system + mine.user + mine.system, system)


def memory_of(roots: Iterable[int]) -> int:
    """Bytes that these processes and all below them use; what several share counts once."""
    found: dict[int, psutil.Process] = {}
    for root in roots:
        try:
            process = psutil.Process(root)
            found |= {one.pid: one for one in [process, *process.children(recursive=True)]}
        except psutil.Error:
            continue  # it has ended meanwhile, and uses nothing
    return sum(map(_memory, found.values()))


def _memory(process: psutil.Process) -> int:
    try:
        full = process.memory_full_info()
        return int(getattr(full, "pss", 0) or full.rss)
    except psutil.Error:
        return 0  # it has ended meanwhile


def _cpu_of(processes: Iterable[psutil.Process]) -> float:
    """Seconds of these, and of their children that have ended."""
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
        except psutil.Error:
            continue  # it has ended meanwhile; its time is its parent's now
    return total
