"""Rules of confinement by isolation level (WRK-4): command prefix and resource limits.

Pure functions; `sandbox.py` applies them.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from mainspring.core.work.isolation import LEVELS, Isolation, at_least
from mainspring.core.work.work import Work
from mainspring.protocol.errors import Refused

MAX_OPEN_FILES = 65_536
TEMPORARY = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - private to each sandbox
HOMES = ("/root", "/home", "/var/lib/mainspring", "/var/lib/mainspring-worker")
RESOLVER = "/run/systemd/resolve"
"""Resolver configuration on many machines."""
_BUBBLEWRAP = (
    "bwrap", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL",
    "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
)  # fmt: skip


class Confinement(msgspec.Struct, frozen=True, kw_only=True):
    """How a task is isolated."""

    level: Isolation = Isolation.NONE
    network: bool = False
    """Whether a sandbox has network access."""

    def is_limited(self) -> bool:
        """Whether memory, processes and files are limited."""
        return LEVELS.index(self.level) >= LEVELS.index(Isolation.PROCESS)

    def is_sandbox(self) -> bool:
        """Whether it runs in a sandbox with its own file system view."""
        return self.level is Isolation.SANDBOX


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Visible file system of a sandbox. Later fields take precedence."""

    hidden: tuple[Path, ...]
    """Directories that appear empty."""
    shown: tuple[Path, ...]
    """Read-only paths below hidden ones."""
    inner: tuple[Path, ...]
    """Hidden paths below shown ones."""
    files: tuple[Path, ...] = ()
    """Files that appear empty."""


def confinement_of(work: Work, minimum: Isolation) -> Confinement:
    """Return the confinement of a task on a worker with this minimum level."""
    level = minimum if work.isolation is None else at_least(minimum, work.isolation)
    return Confinement(level=level, network=work.network and level is Isolation.SANDBOX)


def view_of(hidden: Iterable[Path], shown: Iterable[Path], files: Iterable[Path] = ()) -> View:
    """Build a normalized view. A path that is hidden itself is not shown; paths below it may be."""
    outermost: list[Path] = []
    rest: list[Path] = []
    for place in sorted(set(hidden)):
        is_inside = any(place.is_relative_to(one) for one in outermost)
        (rest if is_inside else outermost).append(place)
    inside = sorted({place for place in shown if any(one in place.parents for one in outermost)})
    inside = [place for place in inside if place not in rest]
    inner = [place for place in rest if any(one in place.parents for one in inside)]
    return View(hidden=tuple(outermost), shown=tuple(inside), inner=tuple(inner), files=tuple(sorted(set(files))))


def sandbox_argv(argv: Sequence[str], view: View, own: Path, directory: Path, *, network: bool) -> list[str]:
    """Return the command line that runs `argv` in a sandbox with `own` writable. Raises Refused for a hidden
    directory."""
    if not is_seen(directory, view, own):
        raise Refused(f"{directory} is hidden in the sandbox: start the worker with --show {directory}")
    command = [*_BUBBLEWRAP]
    if network:
        command += ["--share-net"]
    for place in view.hidden:
        command += ["--tmpfs", str(place)]
    if network:
        command += ["--ro-bind-try", RESOLVER, RESOLVER]
    for place in view.shown:
        command += ["--ro-bind-try", str(place), str(place)]
    for place in view.inner:
        command += ["--tmpfs", str(place)]
    for place in view.files:
        if is_seen(place, view, own):
            command += ["--ro-bind", "/dev/null", str(place)]
    return [*command, "--bind", str(own), str(own), "--chdir", str(directory), "--", *argv]


def is_seen(place: Path, view: View, own: Path) -> bool:
    """Whether a path is visible inside a sandbox."""
    if place.is_relative_to(own):
        return True
    if any(place.is_relative_to(one) for one in view.inner):
        return False
    return any(map(place.is_relative_to, view.shown)) or not any(map(place.is_relative_to, view.hidden))


def limits(*, processes: int, memory_bytes: int, file_bytes: int) -> tuple[tuple[int, int, int], ...]:
    """Return rlimits of a process: resource, soft, hard. 0 means unlimited. None exceeds the worker's own."""
    wanted = {resource.RLIMIT_CORE: 0, resource.RLIMIT_NOFILE: MAX_OPEN_FILES}
    optional = {
        resource.RLIMIT_NPROC: processes,
        resource.RLIMIT_DATA: memory_bytes,
        resource.RLIMIT_FSIZE: file_bytes,
    }
    wanted |= {which: maximum for which, maximum in optional.items() if maximum}
    return tuple((which, *lowered_limit(which, maximum)) for which, maximum in wanted.items())


def lowered_limit(which: int, maximum: int) -> tuple[int, int]:
    """Return the worker's own soft and hard limit, lowered to this maximum."""
    own = resource.getrlimit(which)
    soft, hard = (maximum if one == resource.RLIM_INFINITY else min(one, maximum) for one in own)
    return soft, hard
