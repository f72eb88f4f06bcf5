"""What the benchmarks share: a store to measure on, percentiles, what else the machine did meanwhile, and printing."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from mainspring.app.build import open_store
from mainspring.protocol.clock import MachineClock
from mainspring.store.ports.store import Store
from mainspring.telemetry.log_output import configure_logging
from tests.postgres import DURABLE, running_postgres

Figures = dict[str, object]


def arguments(description: str) -> argparse.ArgumentParser:
    """The options that every benchmark has. What the engine logs goes to stderr: stdout has the figures."""
    configure_logging("text", "warning")
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--store", choices=("postgres", "sqlite"), default="postgres")
    parser.add_argument("-o", "--output", choices=("json", "table"), default="table")
    return parser


def show(figures: Figures, output: str) -> None:
    """Print the figures for people or for programs."""
    if output == "json":
        print(json.dumps(figures, indent=2))
        return
    width = max(map(len, figures))
    for name, value in figures.items():
        print(f"{name:{width}}  {value}")


@asynccontextmanager
async def fresh_store(kind: str) -> AsyncIterator[Store]:
    """An empty store of this kind, as durable as in production."""
    with tempfile.TemporaryDirectory(prefix="mainspring-bench-") as folder:
        if kind == "sqlite":
            store = await open_store(f"sqlite:///{Path(folder) / 'bench.db'}", MachineClock())
            try:
                yield store
            finally:
                await store.close()
            return
        with running_postgres(DURABLE) as url:
            store = await open_store(url, MachineClock())
            try:
                yield store
            finally:
                await store.close()


async def durability(kind: str, store: Store) -> Figures:
    """What the store promises about a commit, as it says itself."""
    report = getattr(store, "settings_report", None)
    if report is None:
        return {"store": kind, "synchronous": "FULL", "journal_mode": "WAL"}
    return {"store": kind, **await report()}


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which so many percent lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(percent / 100 * (len(ordered) - 1)))]


def milliseconds(values: Sequence[float], percent: float) -> float:
    """A percentile of seconds, in milliseconds."""
    return round(1_000 * percentile(values, percent), 2)


class Meter:
    """Wall time, our CPU time, that with the database server's, and how many cores other processes took meanwhile."""

    def __init__(self, kind: str) -> None:
        self._clock = time.thread_time if kind == "sqlite" else time.process_time
        self._wall, self._cpu = time.perf_counter(), self._clock()
        self._ours, self._machine = self._family(), self._busy()

    def stop(self) -> Meter:
        """Take the readings."""
        self.seconds = time.perf_counter() - self._wall
        self.cpu_seconds = self._clock() - self._cpu
        self.family_cpu_seconds = self._family() - self._ours
        others = (self._busy() - self._machine) - self.family_cpu_seconds
        self.foreign_cores = round(max(0.0, others / self.seconds), 2)
        return self

    @staticmethod
    def _busy() -> float:
        """Seconds of all cores; what another machine on the same hardware took from us is in it."""
        times = psutil.cpu_times()
        return float(times.user + times.system + times.nice + getattr(times, "steal", 0.0))

    @staticmethod
    def _family() -> float:
        """CPU seconds of this process, its children, and the database server that it started."""
        total = 0.0
        for process in [psutil.Process(os.getpid()), *psutil.Process(os.getpid()).children(recursive=True)]:
            try:
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
            except psutil.Error:
                continue  # it has ended meanwhile; its time is its parent's now
        return total
