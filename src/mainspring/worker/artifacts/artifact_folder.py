"""What an attempt left in its folder, as files to store. The folder may be hostile: nothing in it is followed.

1. Only plain files and folders may be there. A link, a pipe, a socket or a device is a reason to refuse all of it.
2. A file is opened once, relative to its opened folder, without following a link; what is known of it, and what is
   stored, is of that opened file. Its size is that of the moment; what it grows by is not stored.
3. A file that has several names and belongs to somebody else is refused: it may be another's, linked to from here.
4. Number, sizes and paths have limits.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from mainspring.core.model.artifacts import MOST_ARTIFACTS, fault_in_path
from mainspring.protocol.errors import Refused

_MOST_FOLDERS = 10_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LeftFile(msgspec.Struct, frozen=True, kw_only=True):
    """An opened file that is to be stored."""

    path: str
    size_bytes: int
    file: int
    """Its descriptor, as long as the walk has not gone on."""


class FolderLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much an attempt may leave."""

    files: int = MOST_ARTIFACTS
    file_bytes: int = 10 * 1024**3
    all_bytes: int = 50 * 1024**3


def left_files(folder: Path, limits: FolderLimits, *, secret: Callable[[str], bool]) -> Iterator[LeftFile]:
    """The files in a folder, by path; none if there is no folder. Raises Refused, or OSError.

    All of them have been looked at before the first one is given: what is refused is refused as a whole. `secret` says
    whether a path tells something that nobody may see.
    """
    if not os.path.lexists(folder):
        return
    with _opened(folder) as root:
        paths = sorted(_paths(root))
        total_bytes = 0
        for path in paths:
            if (fault := fault_in_path(path)) is not None or secret(path):
                raise Refused(f"the path of an artifact {fault or 'has a secret in it'}")
            with _opened_file(root, path) as file:
                total_bytes += _checked(root, path, file, limits)
        if total_bytes > limits.all_bytes:
            raise Refused(f"the artifacts have {total_bytes} bytes: {limits.all_bytes} are allowed")
        for path in paths:
            with _opened_file(root, path) as file:
                size_bytes = _checked(root, path, file, limits)
                yield LeftFile(path=path, size_bytes=size_bytes, file=file)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    try:
        root = os.open(folder, _FOLDER)
    except OSError as error:
        raise Refused(f"the folder for artifacts is none any more: {error.strerror}") from None
    try:
        yield root
    finally:
        os.close(root)


def _paths(root: int) -> Iterator[str]:
    """The paths of all plain files."""
    folders = count = 0
    for here, below, names, folder in os.fwalk(".", dir_fd=root, onerror=_give_up):
        folders += 1
        if folders > _MOST_FOLDERS:
            raise Refused(f"there are more than {_MOST_FOLDERS} folders of artifacts")
        for name in (*below, *names):
            path = str(Path(here) / name)
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                continue
            if not stat.S_ISREG(mode):
                raise Refused(f"the artifact {_shown(path)} is no plain file: links, pipes and devices are not stored")
            count += 1
            if count > MOST_ARTIFACTS:
                raise Refused(f"there are more than {MOST_ARTIFACTS} artifacts")
            yield path


@contextmanager
def _opened_file(root: int, path: str) -> Iterator[int]:
    """A file, opened folder by folder, so that none of them can be a link."""
    *folders, name = path.split("/")
    opened: list[int] = []
    try:
        here = root
        for folder in folders:
            here = os.open(folder, _FOLDER, dir_fd=here)
            opened.append(here)
        file = os.open(name, _FILE, dir_fd=here)
        opened.append(file)
        yield file
    finally:
        for one in opened:
            os.close(one)


def _checked(root: int, path: str, file: int, limits: FolderLimits) -> int:
    """The size of a file that may be stored. Raises Refused."""
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"the artifact {_shown(path)} is no plain file")
    if status.st_nlink > 1 and status.st_uid != os.fstat(root).st_uid:
        raise Refused(f"the artifact {_shown(path)} is another user's, by a second name")
    if status.st_size > limits.file_bytes:
        raise Refused(f"the artifact {_shown(path)} has {status.st_size} bytes: {limits.file_bytes} are allowed")
    return status.st_size


def _give_up(error: OSError) -> None:
    raise error


def _shown(path: str) -> str:
    """A path as it can be told: bounded, and text."""
    return path.encode(errors="replace").decode()[:200]
