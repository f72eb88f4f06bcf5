"""Files below a directory, and nowhere else: a path that leads out of it, by `..` or by a link, is refused.

A path is resolved, looked at, and then opened part by part without following links: what somebody changes in between
is refused as well.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from mainspring.protocol.errors import InvalidFile, Refused

_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW


def open_file(directory: Path, path: str) -> int:
    """A descriptor of the plain file at `path` below `directory`, to read. Raises InvalidFile."""
    try:
        opened = _open(directory.resolve(), path)
    except OSError as error:
        raise InvalidFile(f"{path} can't be read: {error.strerror}") from None
    except (RuntimeError, ValueError):
        raise InvalidFile(f"{path} can't be read: it is no path") from None
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise InvalidFile(f"{path} is no file")
    return opened


def make_directory(directory: Path, path: str) -> Path:
    """The directory at `path` below `directory`, made if it is not there. Raises Refused."""
    try:
        root = directory.resolve()
        place = root.joinpath(path).resolve()
        if not place.is_relative_to(root):
            raise Refused(f"{path} leads out of the directory {directory}", reason="outside")
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"{path} can't be made: {error.strerror}", reason="not_made") from None
    if not os.access(place, os.W_OK | os.X_OK):
        raise Refused(f"{path} can't be written: results go there")
    return place


def _open(root: Path, path: str) -> int:
    target = root.joinpath(path).resolve()
    if not target.is_relative_to(root) or target == root:
        raise InvalidFile(f"{path} leads out of the directory {root}")
    *parents, name = target.relative_to(root).parts
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | _FLAGS)
    try:
        for parent in parents:
            below = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | _FLAGS, dir_fd=at)
            os.close(at)
            at = below
        return os.open(name, os.O_RDONLY | os.O_NONBLOCK | _FLAGS, dir_fd=at)
    finally:
        os.close(at)
