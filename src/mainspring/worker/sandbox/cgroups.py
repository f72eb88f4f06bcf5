"""Cgroups: limit memory and processes of an attempt as a whole, and kill it as a whole (WRK-4).

    /sys/fs/cgroup/<own>/mainspring-<supervisor>/<attempt>             version 2: one tree, if a part is delegated to us
    /sys/fs/cgroup/memory/<own>/mainspring-<supervisor>/<attempt>      version 1: a tree per controller, as root
    /sys/fs/cgroup/pids/<own>/mainspring-<supervisor>/<attempt>

Availability is detected by trying. Without cgroups each process has its own limit, and an attempt's processes are found
by their marker.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path

import msgspec
import structlog

log = structlog.get_logger(__name__)

MEMORY, PIDS = "memory", "pids"
_PROCESSES_FILE = "cgroup.procs"
_SUBTREE_FILE = "cgroup.subtree_control"
_ENABLE = "+memory +pids"


class CgroupEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Kernel counters of a cgroup."""

    out_of_memory: int = 0
    """Processes killed by the OOM killer."""
    peak_bytes: int = 0
    """Peak memory; 0 if unknown."""
    refused_forks: int = 0
    """Forks refused by the process limit."""


class Cgroup:
    """Cgroup of one attempt."""

    def __init__(self, places: Mapping[str, Path], version: int) -> None:
        self._places = places
        self._version = version
        self.memory_bytes = 0
        """Memory limit; 0 for none."""

    def make(self, memory_bytes: int, processes: int) -> None:
        """Create it with limits. Raises OSError."""
        for place in set(self._places.values()):
            place.mkdir(exist_ok=True)
        if PIDS in self._places and processes:
            _write(self._places[PIDS] / "pids.max", processes)
        if self._version > 1 and MEMORY in self._places:
            with contextlib.suppress(FileNotFoundError):  # No swap accounting.
                _write(self._places[MEMORY] / "memory.swap.max", 0)
            _write(self._places[MEMORY] / "memory.oom.group", 1)
        self.limit_memory(memory_bytes)

    def limit_memory(self, memory_bytes: int) -> None:
        """Set the memory limit. Raises OSError if more is in use."""
        if MEMORY not in self._places or memory_bytes == self.memory_bytes or not memory_bytes:
            return
        place = self._places[MEMORY]
        if self._version > 1:
            _write(place / "memory.max", memory_bytes)
        else:
            files = [place / "memory.limit_in_bytes", place / "memory.memsw.limit_in_bytes"]
            is_raised = 0 < self.memory_bytes < memory_bytes
            for file in reversed(files) if is_raised else files:  # The first must never exceed the second.
                with contextlib.suppress(FileNotFoundError):
                    _write(file, memory_bytes)
        self.memory_bytes = memory_bytes

    def open_process_files(self) -> list[int]:
        """Open `cgroup.procs` files: a process that writes `0` to each joins the cgroup. Raises OSError."""
        with contextlib.ExitStack() as opened:
            files: list[int] = []
            for place in set(self._places.values()):
                file = os.open(place / _PROCESSES_FILE, os.O_WRONLY | os.O_CLOEXEC)
                opened.callback(os.close, file)
                files.append(file)
            opened.pop_all()
        return files

    def kill(self) -> bool:
        """Kill all its processes; whether there were any."""
        found: set[int] = set()
        for place in set(self._places.values()):
            found.update(_processes_in(place))
        if not found:
            return False
        if PIDS in self._places:
            with contextlib.suppress(OSError):  # The cgroup is gone, with its processes.
                _write(self._places[PIDS] / "pids.max", 0)
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        return True

    def events(self) -> CgroupEvents:
        """Read the kernel counters."""
        memory, pids = self._places.get(MEMORY), self._places.get(PIDS)
        events = "memory.events" if self._version > 1 else "memory.oom_control"
        peak = "memory.peak" if self._version > 1 else "memory.max_usage_in_bytes"
        return CgroupEvents(
            out_of_memory=_counts(memory / events).get("oom_kill", 0) if memory is not None else 0,
            peak_bytes=_number(memory / peak) if memory is not None else 0,
            refused_forks=_counts(pids / "pids.events").get("max", 0) if pids is not None else 0,
        )

    def remove(self) -> bool:
        """Remove it, if it is empty."""
        return _remove(self._places.values())


class Cgroups:
    """Cgroup subtree of one supervisor."""

    def __init__(self, places: Mapping[str, Path], version: int) -> None:
        self._places = places
        self._left: list[Cgroup] = []
        self.version = version

    def open(self, name: str, memory_bytes: int, processes: int) -> Cgroup:
        """Create the cgroup of an attempt. Raises OSError."""
        self._left = [one for one in self._left if not one.remove()]
        made = self._named(name)
        made.make(memory_bytes, processes)
        return made

    def close(self, cgroup: Cgroup) -> None:
        """Remove a cgroup, later if the kernel is not ready."""
        if not cgroup.remove():
            self._left.append(cgroup)

    def clear_leftovers(self) -> int:
        """Kill and remove the cgroups of a killed supervisor; return their number."""
        names = {entry.name for place in self._places.values() for entry in place.iterdir() if entry.is_dir()}
        for name in names:
            found = self._named(name)
            found.kill()
            self.close(found)
        return len(names)

    def end(self) -> None:
        """Remove the subtree."""
        for one in self._left:
            one.remove()
        _remove(self._places.values())

    def _named(self, name: str) -> Cgroup:
        return Cgroup({controller: place / name for controller, place in self._places.items()}, self.version)


def name_of(state_dir: Path) -> str:
    """Return the name of the subtree of this directory's supervisor."""
    return f"mainspring-{blake2b(bytes(state_dir), digest_size=6).hexdigest()}"


def find_cgroups(name: str, about: Path = Path("/proc/self")) -> Cgroups | None:
    """Create a subtree of this name where that is permitted; None if nowhere."""
    try:
        mounts, own = _mounts(about / "mountinfo"), _own(about / "cgroup")
    except OSError:
        return None  # Not supported.
    if "" in mounts and "" in own:
        top = mounts[""]
        here = top / own[""].lstrip("/")
        for parent in (here, here.parent) if here != top else (here,):
            found = _in_version_2(parent, name)
            if found is not None:
                return found
    places: dict[str, Path] = {}
    for controller in (MEMORY, PIDS):
        if controller in mounts and controller in own:
            place = mounts[controller] / own[controller].lstrip("/") / name
            with contextlib.suppress(OSError):
                place.mkdir(exist_ok=True)
                places[controller] = place
    return Cgroups(places, 1) if places else None


def _in_version_2(parent: Path, name: str) -> Cgroups | None:
    """Create a subtree below `parent`, if both controllers are available."""
    try:
        if not {MEMORY, PIDS} <= set((parent / "cgroup.controllers").read_text().split()):
            return None
        if not {MEMORY, PIDS} <= set((parent / _SUBTREE_FILE).read_text().split()):
            _write(parent / _SUBTREE_FILE, _ENABLE)
        place = parent / name
        place.mkdir(exist_ok=True)
        _write(place / _SUBTREE_FILE, _ENABLE)
    except OSError as error:
        log.debug("cgroup.not_ours", place=str(parent), error=str(error))
        return None
    return Cgroups({MEMORY: place, PIDS: place}, 2)


def _mounts(file: Path) -> dict[str, Path]:
    """Return the mount point of each controller; version 2 under the empty name."""
    found: dict[str, Path] = {}
    for line in file.read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        place = Path(before.split(" ")[4])
        if kind == "cgroup2":
            found[""] = place
        elif kind == "cgroup":
            found |= dict.fromkeys(options.split(" ")[-1].split(","), place)
    return found


def _own(file: Path) -> dict[str, str]:
    """Return this process's cgroup in each controller's tree."""
    found: dict[str, str] = {}
    for line in file.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        found |= dict.fromkeys(controllers.split(","), path)
    return found


def _processes_in(place: Path) -> list[int]:
    try:
        return [int(pid) for pid in (place / _PROCESSES_FILE).read_text().split()]
    except OSError:
        return []


def _counts(file: Path) -> dict[str, int]:
    """Parse a file with lines of a name and a number."""
    try:
        lines = [line.split(" ") for line in file.read_text().splitlines()]
        return {argv[0]: int(argv[1]) for argv in lines if len(argv) == 2}
    except (OSError, ValueError):
        return {}


def _number(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0


def _write(file: Path, value: str | int) -> None:
    """Write to an existing file. Raises OSError."""
    opened = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(opened, str(value).encode())
    finally:
        os.close(opened)


def _remove(places: Iterable[Path]) -> bool:
    removed = True
    for place in set(places):
        try:
            place.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            removed = False  # Not empty yet.
    return removed
