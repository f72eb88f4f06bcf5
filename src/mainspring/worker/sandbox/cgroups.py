"""Cgroups: memory and processes of an attempt are counted and limited together, and it is killed as a whole (WRK-4).

    /sys/fs/cgroup/<own>/mainspring-<guard>/<attempt>             version 2: one tree, if a part of it is ours
    /sys/fs/cgroup/memory/<own>/mainspring-<guard>/<attempt>      version 1: a tree for each controller, as root
    /sys/fs/cgroup/pids/<own>/mainspring-<guard>/<attempt>

Which of them there is, is found out by trying. Where neither is, attempts go without: then each process has its own
limit, and what an attempt has started is found by its mark.
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


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel has noticed about a cgroup."""

    out_of_memory: int = 0
    """So many of its processes were killed because its memory was used up."""
    peak_bytes: int = 0
    """The most memory it has used; 0 if it is not known."""
    refused_forks: int = 0
    """So often it wanted one more process than it may have."""


class Cgroup:
    """That of one attempt."""

    def __init__(self, places: Mapping[str, Path], version: int) -> None:
        self._places = places
        self._version = version
        self.memory_bytes = 0
        """The limit; 0 if there is none."""

    def make(self, memory_bytes: int, processes: int) -> None:
        """Make it, with limits. Raises OSError."""
        for place in set(self._places.values()):
            place.mkdir(exist_ok=True)
        if PIDS in self._places and processes:
            _write(self._places[PIDS] / "pids.max", processes)
        if self._version > 1 and MEMORY in self._places:
            with contextlib.suppress(FileNotFoundError):  # It has no swap to count.
                _write(self._places[MEMORY] / "memory.swap.max", 0)
            _write(self._places[MEMORY] / "memory.oom.group", 1)
        self.limit_memory(memory_bytes)

    def limit_memory(self, memory_bytes: int) -> None:
        """Let it have so much memory from now on. Raises OSError if it uses more already."""
        if MEMORY not in self._places or memory_bytes == self.memory_bytes or not memory_bytes:
            return
        place = self._places[MEMORY]
        if self._version > 1:
            _write(place / "memory.max", memory_bytes)
        else:
            files = [place / "memory.limit_in_bytes", place / "memory.memsw.limit_in_bytes"]
            is_raised = 0 < self.memory_bytes < memory_bytes
            for file in reversed(files) if is_raised else files:  # The one never exceeds the other.
                with contextlib.suppress(FileNotFoundError):
                    _write(file, memory_bytes)
        self.memory_bytes = memory_bytes

    def entrances(self) -> list[int]:
        """Open files: a process that writes `0` into each is in it. Raises OSError."""
        with contextlib.ExitStack() as opened:
            files: list[int] = []
            for place in set(self._places.values()):
                file = os.open(place / _PROCESSES_FILE, os.O_WRONLY | os.O_CLOEXEC)
                opened.callback(os.close, file)
                files.append(file)
            opened.pop_all()
        return files

    def kill(self) -> bool:
        """Kill all that is in it; whether something was."""
        found: set[int] = set()
        for place in set(self._places.values()):
            found.update(_processes_in(place))
        if not found:
            return False
        if PIDS in self._places:
            with contextlib.suppress(OSError):  # It is gone: so is what was in it.
                _write(self._places[PIDS] / "pids.max", 0)
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        return True

    def story(self) -> Story:
        """What the kernel has noticed so far."""
        memory, pids = self._places.get(MEMORY), self._places.get(PIDS)
        events = "memory.events" if self._version > 1 else "memory.oom_control"
        peak = "memory.peak" if self._version > 1 else "memory.max_usage_in_bytes"
        return Story(
            out_of_memory=_counts(memory / events).get("oom_kill", 0) if memory is not None else 0,
            peak_bytes=_number(memory / peak) if memory is not None else 0,
            refused_forks=_counts(pids / "pids.events").get("max", 0) if pids is not None else 0,
        )

    def remove(self) -> bool:
        """Remove it, if nothing is in it any more."""
        return _remove(self._places.values())


class Cgroups:
    """The part of the tree that belongs to one guard."""

    def __init__(self, places: Mapping[str, Path], version: int) -> None:
        self._places = places
        self._left: list[Cgroup] = []
        self.version = version

    def open(self, name: str, memory_bytes: int, processes: int) -> Cgroup:
        """A new one for an attempt. Raises OSError."""
        self._left = [one for one in self._left if not one.remove()]
        made = self._named(name)
        made.make(memory_bytes, processes)
        return made

    def close(self, cgroup: Cgroup) -> None:
        """Remove one that is done with; if the kernel is not ready for that, a little later."""
        if not cgroup.remove():
            self._left.append(cgroup)

    def clear_leftovers(self) -> int:
        """Kill and remove what a guard that was killed has left. How many there were."""
        names = {entry.name for place in self._places.values() for entry in place.iterdir() if entry.is_dir()}
        for name in names:
            found = self._named(name)
            found.kill()
            self.close(found)
        return len(names)

    def end(self) -> None:
        """Nothing more will come: leave nothing behind."""
        for one in self._left:
            one.remove()
        _remove(self._places.values())

    def _named(self, name: str) -> Cgroup:
        return Cgroup({controller: place / name for controller, place in self._places.items()}, self.version)


def name_of(state_dir: Path) -> str:
    """What the part of the tree is called that belongs to the guard of this directory."""
    return f"mainspring-{blake2b(bytes(state_dir), digest_size=6).hexdigest()}"


def find_cgroups(name: str, about: Path = Path("/proc/self")) -> Cgroups | None:
    """A part of the tree under this name, made where this process may make one; None if it may nowhere."""
    try:
        mounts, own = _mounts(about / "mountinfo"), _own(about / "cgroup")
    except OSError:
        return None  # This system has none.
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
    """A part of the tree below this one, if both controllers are there for it."""
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
    """Where the tree of each controller is mounted; that of version 2 under the empty name."""
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
    """In which cgroup of each controller's tree this process is."""
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
    """A file with lines of a name and a number."""
    try:
        lines = [line.split(" ") for line in file.read_text().splitlines()]
        return {words[0]: int(words[1]) for words in lines if len(words) == 2}
    except (OSError, ValueError):
        return {}


def _number(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0


def _write(file: Path, value: str | int) -> None:
    """Write to a file that is there. Raises OSError."""
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
            removed = False  # Something is in it still.
    return removed
