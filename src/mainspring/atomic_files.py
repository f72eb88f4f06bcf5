"""Write files so that a reader sees the old content or the new, and never a part.

1. A file is written under a temporary name in the same directory, and then renamed.
2. A temporary file is always created: a symbolic link in its place is removed, and never followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})
"""Errors of a file system without hard links."""


def write_atomically(
    path: Path,
    data: bytes,
    *,
    mode: int = 0o644,
    owner: tuple[int, int] | None = None,
    sync: bool = False,
    suffix: str = ".new",
) -> None:
    """Replace the content of a file; with fsync if `sync`. `owner` is a user and a group. Raises OSError.

    The temporary file is `<name><suffix>`; that of a killed process is replaced by the next write. Processes that may
    write the same file at the same time need different suffixes.
    """
    new = path.with_name(path.name + suffix)
    new.unlink(missing_ok=True)
    try:
        create_file(new, data, mode, owner=owner, sync=sync)
        new.rename(path)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
    if sync:
        sync_path(path.parent)


def create_file(
    path: Path, data: bytes, mode: int, *, owner: tuple[int, int] | None = None, sync: bool = False
) -> None:
    """Create a file. Raises OSError; FileExistsError also for a symbolic link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, mode), "wb") as file:
        file.write(data)
        file.flush()
        if owner is not None:
            os.fchown(file.fileno(), *owner)
        if sync:
            os.fsync(file.fileno())


def rename_without_replacing(old: Path, new: Path) -> None:
    """Rename a file. Raises FileExistsError if the new name is taken, or OSError."""
    try:
        os.link(old, new, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # Two processes may race here; `folder/lock.py` detects that its file was replaced.
        if os.path.lexists(new):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new)) from error
        old.rename(new)
    else:
        with contextlib.suppress(OSError):
            old.unlink()


def sync_path(path: Path) -> None:
    """Fsync a file or directory. Raises OSError."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
