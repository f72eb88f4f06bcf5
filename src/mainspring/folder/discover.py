"""Which directories below a folder are pipelines, and what their files say (FLD-1).

A pipeline is a directory with a `pipeline.yaml`; the folder itself may be one. Hidden directories and those of tools
are left out, and a link to a directory is not followed, so a walk ends and stays inside. A file that can't be used is
found all the same, with a fault in the place of its text: it is reported, and the others run.
"""

from __future__ import annotations

import hashlib
import os
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import msgspec

from mainspring.dsl.names import job_name
from mainspring.folder.state import safe_files
from mainspring.folder.state.records import PIPELINE_FILE
from mainspring.protocol.errors import InvalidFile

ROOT = "."
"""The path of the folder itself."""
DEEPEST = 16
MOST_DIRECTORIES = 100_000
MAX_FILE_BYTES = 1024 * 1024

LONGEST_ID = 115
"""A schedule's name has 128 characters, of which our endings (`-a1b2c3`, `-event`) take 13."""

_LEFT_OUT = frozenset({"node_modules", "__pycache__", "venv"})
_FALLBACK = "pipeline"
"""The name of what has no letter that a name can have."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A directory with a pipeline file."""

    path: str
    """Below the folder, with `/`; `.` is the folder itself."""
    pipeline_id: str
    text: str = ""
    fault: str | None = None
    """Why there is no text: `is not UTF-8`, .."""


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """What is below a folder."""

    found: tuple[Found, ...]
    """Sorted by path."""
    faults: tuple[str, ...] = ()
    """What was left out, and why."""
    unseen: tuple[str, ...] = ()
    """Paths that could not be looked at: what was there, and below, may be there still. What is always left out (too
    deep, no text as a name) is not among them.
    """


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """A directory that a walk came by."""

    path: str
    names: frozenset[str] = frozenset()
    """Those that the walk was asked to look for."""
    fault: str | None = None
    """Why something is left out here."""
    is_unseen: bool = False
    """It could not be looked at now."""


def scan(root: Path) -> Scan:
    """All pipelines below `root`."""
    found: list[Found] = []
    faults: list[str] = []
    unseen: list[str] = []
    for listing in walk(root, frozenset({PIPELINE_FILE})):
        if listing.fault is not None:
            faults.append(listing.fault)
            unseen += [listing.path] if listing.is_unseen else []
        elif listing.names and (pipeline := read_one(root, listing.path)) is not None:
            found.append(pipeline)
    found.sort(key=lambda one: one.path)
    return Scan(found=tuple(found), faults=tuple(faults), unseen=tuple(unseen))


def read_one(root: Path, directory: str) -> Found | None:
    """The pipeline in a directory below `root`, by its path there; None if there is none."""
    if leads_elsewhere(root, directory):
        return None
    try:
        text = _read(root, root / directory / PIPELINE_FILE)
    except InvalidFile as fault:
        return Found(path=directory, pipeline_id=pipeline_id(root, directory), fault=str(fault))
    return None if text is None else Found(path=directory, pipeline_id=pipeline_id(root, directory), text=text)


def leads_elsewhere(root: Path, directory: str) -> bool:
    """Whether the way from `root` to a directory goes over a link: what is there is not ours to read or to write."""
    below = PurePosixPath(directory)
    return any((root / way).is_symlink() for way in (below, *below.parents) if way != PurePosixPath(ROOT))


def pipeline_id(root: Path, directory: str) -> str:
    """The name of the pipeline in a directory below `root`: that of its job, too.

    It is the path in lower case and without accents, with dots for slashes and dashes for what a name can't have. One
    that is too long is cut, and a digest of the whole keeps it apart from others.
    """
    path = PurePosixPath(root.absolute().name if directory == ROOT else directory)
    name = ".".join(job_name(part) or _FALLBACK for part in path.parts) or _FALLBACK
    if len(name) <= LONGEST_ID:
        return name
    digest = hashlib.sha256(path.as_posix().encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{name[: LONGEST_ID - len(digest) - 1]}-{digest}"


def walk(root: Path, names: frozenset[str]) -> Iterator[Listing]:
    """Every directory below `root` that may have a pipeline, `root` first, and which of `names` are in it."""
    waiting = [(ROOT, 0)]
    walked = 0
    while waiting:
        path, depth = waiting.pop()
        walked += 1
        if walked > MOST_DIRECTORIES:
            fault = f"{root} has more than {MOST_DIRECTORIES:,} directories: the rest is left out"
            yield Listing(path=ROOT, fault=fault, is_unseen=True)
            return
        try:
            seen, below = _look(root / path, names)
        except OSError as error:
            if path == ROOT or not isinstance(error, FileNotFoundError | NotADirectoryError):
                yield Listing(path=path, fault=f"{root / path} can't be read: {error.strerror}", is_unseen=True)
            continue
        yield Listing(path=path, names=seen)
        if below and depth == DEEPEST:
            yield Listing(path=path, fault=f"{root / path} is {DEEPEST} deep: what is below it is left out")
            continue
        for name in sorted(below, reverse=True):
            if _is_text(name):
                waiting.append((name if path == ROOT else f"{path}/{name}", depth + 1))
            else:
                yield Listing(path=path, fault=f"the name of {root / path}/{_shown(name)} is not UTF-8: it is left out")


def is_left_out(name: str) -> bool:
    """Whether no pipeline is looked for in directories of this name."""
    return name.startswith(".") or name in _LEFT_OUT


def _is_text(name: str) -> bool:
    """Whether a name can be written in a file or sent: what is not UTF-8 comes with halves of characters."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def _shown(name: str) -> str:
    return name.encode("utf-8", "replace").decode("utf-8")


def _look(directory: Path, names: frozenset[str]) -> tuple[frozenset[str], list[str]]:
    """Which of `names` are in a directory, and the directories below it."""
    seen: set[str] = set()
    below: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name in names:
                seen.add(entry.name)
            elif not is_left_out(entry.name) and entry.is_dir(follow_symlinks=False):
                below.append(entry.name)
    return frozenset(seen), below


def _read(root: Path, path: Path) -> str | None:
    """The text of a pipeline file. A link to another file of the same folder is followed."""
    if path.is_symlink():
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise InvalidFile("is a symbolic link that leads nowhere") from error
        if not target.is_relative_to(root.resolve()):
            raise InvalidFile(f"is a symbolic link that leaves the folder: to {target}")
        path = target
    data = safe_files.read(path, most_bytes=MAX_FILE_BYTES)
    try:
        return None if data is None else data.removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InvalidFile(f"is not UTF-8: see line {line}") from error
