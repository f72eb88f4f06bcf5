"""Files below a directory: a path that leaves it, by `..` or by a link, is rejected.

A path is resolved, checked, and then opened component by component without following links, so that concurrent changes
are rejected as well.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from mainspring.protocol.errors import InvalidFile, Refused

_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW


def open_file(directory: Path, path: str) -> int:
    """Open the plain file at `path` below `directory` for reading; return its descriptor. Raises InvalidFile."""
    try:
        opened = _open(directory.resolve(), path)
    except OSError as error:
        raise InvalidFile(f"cannot read {path}: {error.strerror}") from None
    except (RuntimeError, ValueError):
        raise InvalidFile(f"cannot read {path}: invalid path") from None
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise InvalidFile(f"{path} is not a file")
    return opened


def make_directory(directory: Path, path: str) -> Path:
    """Return the directory at `path` below `directory`, created if needed. Raises Refused."""
    try:
        root = directory.resolve()
        folder = root.joinpath(path).resolve()
        if not folder.is_relative_to(root):
            raise Refused(f"{path} is outside of {directory}", reason="outside")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"cannot create {path}: {error.strerror}", reason="not_made") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Refused(f"the results directory {path} is not writable")
    return folder


def _open(root: Path, path: str) -> int:
    target = root.joinpath(path).resolve()
    if not target.is_relative_to(root) or target == root:
        raise InvalidFile(f"{path} is outside of {root}")
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
