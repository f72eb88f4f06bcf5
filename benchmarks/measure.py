"""Shared by the benchmarks: stores, percentiles, foreign CPU use, and output."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import uvloop

from mainspring.app.build import open_store
from mainspring.protocol.clock import SystemClock
from mainspring.store.ports.store import Store
from mainspring.telemetry.log_output import configure_logging
from tests.postgres import DURABLE, running_postgres

Figures = dict[str, object]


def run_benchmark(
    about: str | None, main: Callable[..., Figures | Coroutine[Any, Any, Figures]], **defaults: float
) -> None:
    """Run a benchmark from the command line, and print its results.

    `defaults` are its options. It has `--store` if `main` takes the `kind` of a store. The engine logs to stderr.
    """
    configure_logging("text", "warning")
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    if "kind" in inspect.signature(main).parameters:
        parser.add_argument("--store", dest="kind", choices=("postgres", "sqlite"), default="postgres")
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("-o", "--output", choices=("json", "table"), default="table")
    options = vars(parser.parse_args())
    output = options.pop("output")
    figures = main(**options)
    show(figures if isinstance(figures, dict) else uvloop.run(figures), output)


def show(figures: Figures, output: str) -> None:
    """Print the results as text or JSON."""
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
            store = await open_store(f"sqlite:///{Path(folder) / 'bench.db'}", SystemClock())
            try:
                yield store
            finally:
                await store.close()
            return
        with running_postgres(DURABLE) as url:
            store = await open_store(url, SystemClock())
            try:
                yield store
            finally:
                await store.close()


async def durability(kind: str, store: Store) -> Figures:
    """The durability of a commit, as reported by the store."""
    report = getattr(store, "settings_report", None)
    if report is None:
        return {"store": kind, "synchronous": "FULL", "journal_mode": "WAL"}
    return {"store": kind, **await report()}


def percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(percent / 100 * (len(ordered) - 1)))]


def milliseconds(values: Sequence[float], percent: float) -> float:
    """Return a percentile of seconds, in milliseconds."""
    return round(1_000 * percentile(values, percent), 2)


class Meter:
    """Wall time, our CPU time, that including the database server, and the cores used by other processes."""

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
        """CPU seconds of all cores, including steal time."""
        times = psutil.cpu_times()
        return float(times.user + times.system + times.nice + getattr(times, "steal", 0.0))

    @staticmethod
    def _family() -> float:
        """CPU seconds of this process, its children, and its database server."""
        total = 0.0
        for process in [psutil.Process(os.getpid()), *psutil.Process(os.getpid()).children(recursive=True)]:
            try:
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
            except psutil.Error:
                continue  # ended meanwhile; its time was added to its parent's
        return total
