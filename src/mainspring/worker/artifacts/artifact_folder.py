"""Artifact files of an attempt's folder. The folder may be hostile: no link in it is followed.

1. Only plain files and folders are allowed. A link, pipe, socket or device rejects the whole folder.
2. A file is opened once, relative to its opened folder, without following links; its metadata and content are those
   of the opened file. Its size is taken then; later growth is not stored.
3. A file with several names that belongs to another user is rejected: it may be a hard link to that user's data.
4. Count, sizes and paths are limited.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from mainspring.core.model.artifacts import MAX_ARTIFACTS, fault_in_path
from mainspring.protocol.errors import Refused

_MAX_FOLDERS = 10_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ArtifactFile(msgspec.Struct, frozen=True, kw_only=True):
    """An open file to be stored."""

    path: str
    size_bytes: int
    file: int
    """File descriptor, valid until the iteration continues."""


def artifact_files(
    folder: Path, *, file_bytes: int, all_bytes: int, secret: Callable[[str], bool]
) -> Iterator[ArtifactFile]:
    """Yield the files of a folder, sorted by path; none if the folder is missing. Raises Refused or OSError.

    All files are checked before the first is yielded, so a folder is rejected as a whole. `file_bytes` is the limit of
    a file, `all_bytes` that of all files. `secret` says whether a path contains a secret value.
    """
    if not os.path.lexists(folder):
        return
    with _opened(folder) as root:
        paths = sorted(_paths(root))
        total_bytes = 0
        for path in paths:
            if (fault := fault_in_path(path)) is not None or secret(path):
                raise Refused(f"the path of an artifact {fault or 'contains a secret'}")
            with _opened_file(root, path) as file:
                total_bytes += _checked(root, path, file, file_bytes)
        if total_bytes > all_bytes:
            raise Refused(f"the artifacts have {total_bytes} bytes; the limit is {all_bytes}")
        for path in paths:
            with _opened_file(root, path) as file:
                size_bytes = _checked(root, path, file, file_bytes)
                yield ArtifactFile(path=path, size_bytes=size_bytes, file=file)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    try:
        root = os.open(folder, _FOLDER)
    except OSError as error:
        raise Refused(f"the artifact folder can't be opened: {error.strerror}") from None
    try:
        yield root
    finally:
        os.close(root)


def _paths(root: int) -> Iterator[str]:
    """Yield the paths of all plain files."""
    folders = count = 0
    for here, below, names, folder in os.fwalk(".", dir_fd=root, onerror=_raise):
        folders += 1
        if folders > _MAX_FOLDERS:
            raise Refused(f"more than {_MAX_FOLDERS} artifact folders")
        for name in (*below, *names):
            path = str(Path(here) / name)
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                continue
            if not stat.S_ISREG(mode):
                raise Refused(
                    f"the artifact {_shown(path)} is not a plain file: links, pipes and devices are not stored"
                )
            count += 1
            if count > MAX_ARTIFACTS:
                raise Refused(f"more than {MAX_ARTIFACTS} artifacts")
            yield path


@contextmanager
def _opened_file(root: int, path: str) -> Iterator[int]:
    """Open a file folder by folder, so that none of them can be a link."""
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


def _checked(root: int, path: str, file: int, max_bytes: int) -> int:
    """Return the size of a file that may be stored. Raises Refused."""
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"the artifact {_shown(path)} is not a plain file")
    if status.st_nlink > 1 and status.st_uid != os.fstat(root).st_uid:
        raise Refused(f"the artifact {_shown(path)} is a hard link to another user's file")
    if status.st_size > max_bytes:
        raise Refused(f"the artifact {_shown(path)} has {status.st_size} bytes; the limit is {max_bytes}")
    return status.st_size


def _raise(error: OSError) -> None:
    raise error


def _shown(path: str) -> str:
    """Return a path for messages: bounded and printable."""
    return path.encode(errors="replace").decode()[:200]
