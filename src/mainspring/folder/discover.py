"""Find the pipelines below a folder, and read their files (FLD-1).

A pipeline is a directory with a `pipeline.yaml`; the folder itself may be one. Hidden directories and those of tools
are ignored, and symbolic links to directories are not followed, so a walk ends and stays inside. An invalid file is
found too, with a fault instead of its text: it is reported, and the other pipelines run.
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
MAX_DEPTH = 16
MAX_DIRECTORIES = 100_000
MAX_FILE_BYTES = 1024 * 1024

MAX_ID_LENGTH = 115
"""A schedule's name has up to 128 characters, of which our suffixes (`-a1b2c3`, `-event`) take 13."""

_IGNORED_DIRECTORIES = frozenset({"node_modules", "__pycache__", "venv"})
_FALLBACK = "pipeline"
"""The name of a directory without a character that is allowed in names."""


class FoundPipeline(msgspec.Struct, frozen=True, kw_only=True):
    """A directory with a pipeline file."""

    path: str
    """Relative to the folder, with `/`; `.` is the folder itself."""
    pipeline_id: str
    text: str = ""
    fault: str | None = None
    """Why the file can't be read: `is not UTF-8`, .."""


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """The pipelines below a folder."""

    found: tuple[FoundPipeline, ...]
    """Sorted by path."""
    faults: tuple[str, ...] = ()
    """What was ignored, and why."""
    unreadable: tuple[str, ...] = ()
    """Paths that could not be read: pipelines at or below them may still exist. Paths that are always ignored (too
    deep, name not UTF-8) are not included.
    """


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """A directory visited by a walk."""

    path: str
    names: frozenset[str] = frozenset()
    """Which of the requested names exist in it."""
    fault: str | None = None
    """Why something is ignored here."""
    is_unreadable: bool = False
    """It could not be read."""


def scan(root: Path) -> Scan:
    """Find all pipelines below `root`."""
    found: list[FoundPipeline] = []
    faults: list[str] = []
    unreadable: list[str] = []
    for listing in walk(root, frozenset({PIPELINE_FILE})):
        if listing.fault is not None:
            faults.append(listing.fault)
            unreadable += [listing.path] if listing.is_unreadable else []
        elif listing.names and (pipeline := read_one(root, listing.path)) is not None:
            found.append(pipeline)
    found.sort(key=lambda one: one.path)
    return Scan(found=tuple(found), faults=tuple(faults), unreadable=tuple(unreadable))


def read_one(root: Path, directory: str) -> FoundPipeline | None:
    """Return the pipeline in a directory, given relative to `root`; None if there is none."""
    if is_behind_symlink(root, directory):
        return None
    try:
        text = _read(root, root / directory / PIPELINE_FILE)
    except InvalidFile as fault:
        return FoundPipeline(path=directory, pipeline_id=pipeline_id(root, directory), fault=str(fault))
    return None if text is None else FoundPipeline(path=directory, pipeline_id=pipeline_id(root, directory), text=text)


def is_behind_symlink(root: Path, directory: str) -> bool:
    """Whether the path from `root` to a directory contains a symbolic link: nothing there is read or written."""
    below = PurePosixPath(directory)
    return any((root / way).is_symlink() for way in (below, *below.parents) if way != PurePosixPath(ROOT))


def pipeline_id(root: Path, directory: str) -> str:
    """Return the id of the pipeline in a directory below `root`, which is also the name of its job.

    It is the path in lower case, without accents, with dots for slashes and hyphens for other characters. A path that
    is too long is truncated, and a digest of it is appended.
    """
    path = PurePosixPath(root.absolute().name if directory == ROOT else directory)
    name = ".".join(job_name(part) or _FALLBACK for part in path.parts) or _FALLBACK
    if len(name) <= MAX_ID_LENGTH:
        return name
    digest = hashlib.sha256(path.as_posix().encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{name[: MAX_ID_LENGTH - len(digest) - 1]}-{digest}"


def walk(root: Path, names: frozenset[str]) -> Iterator[Listing]:
    """Yield every directory below `root` that may have a pipeline, `root` first, with the `names` that it contains."""
    waiting = [(ROOT, 0)]
    walked = 0
    while waiting:
        path, depth = waiting.pop()
        walked += 1
        if walked > MAX_DIRECTORIES:
            fault = f"{root} has more than {MAX_DIRECTORIES:,} directories: the rest is ignored"
            yield Listing(path=ROOT, fault=fault, is_unreadable=True)
            return
        try:
            seen, below = _list_directory(root / path, names)
        except OSError as error:
            if path == ROOT or not isinstance(error, FileNotFoundError | NotADirectoryError):
                yield Listing(path=path, fault=f"{root / path} can't be read: {error.strerror}", is_unreadable=True)
            continue
        yield Listing(path=path, names=seen)
        if below and depth == MAX_DEPTH:
            yield Listing(path=path, fault=f"{root / path} is {MAX_DEPTH} levels deep: everything below it is ignored")
            continue
        for name in sorted(below, reverse=True):
            if _is_utf8(name):
                waiting.append((name if path == ROOT else f"{path}/{name}", depth + 1))
            else:
                printable = name.encode("utf-8", "replace").decode("utf-8")
                yield Listing(path=path, fault=f"the name of {root / path}/{printable} is not UTF-8: it is ignored")


def is_ignored(name: str) -> bool:
    """Whether directories of this name are never scanned."""
    return name.startswith(".") or name in _IGNORED_DIRECTORIES


def _is_utf8(name: str) -> bool:
    """Whether a name is UTF-8: Python decodes other bytes to surrogates, which can't be written or sent."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def _list_directory(directory: Path, names: frozenset[str]) -> tuple[frozenset[str], list[str]]:
    """Return which of `names` are in a directory, and its subdirectories."""
    seen: set[str] = set()
    below: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name in names:
                seen.add(entry.name)
            elif not is_ignored(entry.name) and entry.is_dir(follow_symlinks=False):
                below.append(entry.name)
    return frozenset(seen), below


def _read(root: Path, path: Path) -> str | None:
    """Read a pipeline file. A symbolic link is followed if its target is in the same folder."""
    if path.is_symlink():
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise InvalidFile("is a broken symbolic link") from error
        if not target.is_relative_to(root.resolve()):
            raise InvalidFile(f"is a symbolic link to {target}, outside the folder")
        path = target
    data = safe_files.read(path, max_bytes=MAX_FILE_BYTES)
    try:
        return None if data is None else data.removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InvalidFile(f"is not UTF-8, at line {line}") from error
