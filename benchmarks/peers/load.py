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
    """CPU seconds, as counters."""

    at: float
    machine: float
    """All cores and processes, including steal time."""
    ours: float
    """This process and its descendants."""
    system: float
    """Its descendants only: the system, with its store."""


class Spent(NamedTuple):
    """The difference between two readings."""

    seconds: float
    system_cpu: float
    foreign_cores: float


def between(before: Reading, after: Reading) -> Spent:
    """Compute the differences. The kernel counts in hundredths of a second, so slightly negative values are zero."""
    seconds = max(after.at - before.at, 1e-6)
    foreign = (after.machine - before.machine) - (after.ours - before.ours)
    return Spent(seconds, max(0.0, after.system - before.system), max(0.0, foreign / seconds))


def is_disturbed(foreign_cores: float) -> bool:
    """Whether other processes used enough CPU to mark the figure."""
    return foreign_cores >= LIMIT_CORES


def read_load() -> Reading:
    """Read the counters."""
    times = psutil.cpu_times()
    machine = times.user + times.system + times.nice + getattr(times, "steal", 0.0)
    own = psutil.Process(os.getpid())
    system = _cpu_of(own.children(recursive=True))
    mine = own.cpu_times()
    return Reading(time.monotonic(), machine, system + mine.user + mine.system, system)


def memory_of(roots: Iterable[int]) -> int:
    """Memory of these processes and their descendants in bytes; shared memory counts once."""
    found: dict[int, psutil.Process] = {}
    for root in roots:
        try:
            process = psutil.Process(root)
            found |= {one.pid: one for one in [process, *process.children(recursive=True)]}
        except psutil.Error:
            continue  # ended meanwhile
    return sum(map(_memory, found.values()))


def _memory(process: psutil.Process) -> int:
    try:
        full = process.memory_full_info()
        return int(getattr(full, "pss", 0) or full.rss)
    except psutil.Error:
        return 0  # ended meanwhile


def _cpu_of(processes: Iterable[psutil.Process]) -> float:
    """CPU seconds of these processes, and of their ended children."""
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
        except psutil.Error:
            continue  # ended meanwhile; its time was added to its parent's
    return total
