"""Measure one variant of a system: start, measure, stop."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.peers.driver import Driver
from benchmarks.peers.environments import ROOT, Environment
from benchmarks.peers.figures import Measure, Row, figure
from benchmarks.peers.load import between, read_load
from benchmarks.peers.marks import PATH_VARIABLE, Marks
from benchmarks.peers.peer import Peer, Service, Variant, Words, scaled
from benchmarks.peers.processes import Processes, SystemFailure
from benchmarks.peers.stages import STAGES, RunningSystem, first_task
from benchmarks.peers.stores import free_ports, running_store

_PORTS = 6
_PROGRAMS = Path(__file__).with_name("programs")
Say = Callable[[str], None]


def measure(peer: Peer, variant: Variant, environment: Environment, scale: float, say: Say) -> Row:
    """Return the row of one variant.

    A failed stage is recorded in the row, and ends it. Raises Trouble if no task ran.
    """
    row = Row(
        peer=peer.name, name=variant.name, store=variant.store, settings=variant.settings, durable=variant.durable,
        lacks=peer.lacks, quick_start=list(peer.quick_start), versions=dict(environment.versions), figures={},
        failures=[],
    )  # fmt: skip
    row.figures[Measure.INSTALL] = figure(environment.seconds, note="when its environment was made")
    with (
        tempfile.TemporaryDirectory(prefix="peers-") as name,
        running_store(variant.store, Path(name)) as store,
    ):
        folder = Path(name)
        if store.version:
            product, _, version = store.version.partition(" ")
            row.versions[product] = version
        for copied in variant.copies:
            shutil.copy(_PROGRAMS / copied, folder / copied)
        ports = free_ports(_PORTS)
        names = _names(environment, folder, store.variables, ports)
        variables = _variables(environment, variant, folder, store.variables, ports)
        variables |= {key: value.format_map(names) for key, value in variant.environment.items()}
        with Processes(variables, folder) as services, Processes(variables, folder) as workers:
            _measure_all(row, peer, _filled(variant, names), names, (services, workers), scale, say)
    return row


def _measure_all(
    row: Row, peer: Peer, variant: Variant, names: Mapping[str, str], processes: tuple[Processes, Processes],
    scale: float, say: Say,
) -> None:  # fmt: skip
    services, workers = processes
    marks = Marks(Path(names["folder"]) / "marks")
    before = read_load()
    for words in variant.prepare:
        services.run(words)
    services.start_all(variant.services)
    with Processes(services.environment, Path(names["folder"])) as driving:
        driver = Driver(driving, _fill(peer.driver, names))
        running = RunningSystem(
            driver, marks, scaled(variant.sizes, scale), services, workers, variant.workers, variant.driver_works
        )
        began_at = first_task(running)
        foreign = between(before, read_load()).foreign_cores
        row.figures[Measure.FIRST_RUN] = figure(began_at - before.at, foreign)
        for name, stage in STAGES.items():
            began = time.monotonic()
            try:
                row.figures |= stage(running)
            except SystemFailure as failure:
                row.failures.append(f"{name}: {failure}")
                say(f"{variant.name}: {name} failed, and nothing more is tried: {failure}")
                break  # late tasks would be counted in the next stage
            else:
                say(f"{variant.name}: {name} took {time.monotonic() - began:.1f} s")


def _names(environment: Environment, folder: Path, store: Mapping[str, str], ports: list[int]) -> dict[str, str]:
    """Values of the placeholders in commands."""
    return {
        "bin": str(environment.programs),
        "python": str(environment.programs / "python"),
        "folder": str(folder),
        "programs": str(_PROGRAMS),
        "root": str(ROOT),
        "postgres": store.get("PEERS_POSTGRES", ""),
        "redis": store.get("PEERS_REDIS", ""),
        "cores": str(_cores()),
        **{f"port{number}": str(port) for number, port in enumerate(ports)},
    }


def _variables(
    environment: Environment, variant: Variant, folder: Path, store: Mapping[str, str], ports: list[int]
) -> dict[str, str]:
    """The complete environment of a system's processes, without the user's settings or proxy."""
    return {
        "PATH": os.pathsep.join([str(environment.programs), os.environ.get("PATH", os.defpath)]),
        "HOME": str(folder),
        "TMPDIR": tempfile.gettempdir(),
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
        "NODE_PATH": str(environment.modules),
        "DO_NOT_TRACK": "1",
        PATH_VARIABLE: str(folder / "marks"),
        "PEERS_FOLDER": str(folder),
        "PEERS_VARIANT": variant.variant,
        "PEERS_PORTS": ",".join(map(str, ports)),
        "PEERS_CORES": str(_cores()),
        **store,
    }


def _cores() -> int:
    """Number of usable cores."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _filled(variant: Variant, names: Mapping[str, str]) -> Variant:
    """The same with its placeholders filled in."""
    return Variant(
        name=variant.name, store=variant.store, settings=variant.settings, durable=variant.durable,
        variant=variant.variant, driver_works=variant.driver_works, sizes=variant.sizes,
        prepare=tuple(_fill(words, names) for words in variant.prepare),
        services=tuple(_fill_service(one, names) for one in variant.services),
        workers=tuple(_fill_service(one, names) for one in variant.workers),
    )  # fmt: skip


def _fill_service(service: Service, names: Mapping[str, str]) -> Service:
    return Service(words=_fill(service.words, names), ready=service.ready.format_map(names))


def _fill(words: Words, names: Mapping[str, str]) -> Words:
    return tuple(word.format_map(names) for word in words)
