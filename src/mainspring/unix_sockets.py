"""Unix sockets: private to this user, and of any path length."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MAX_PATH_BYTES = 100
"""A socket address is limited to 108 bytes."""


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Return a path short enough for a socket address, through a directory descriptor if needed. Raises OSError."""
    if len(os.fsencode(path)) <= _MAX_PATH_BYTES or not hasattr(os, "O_PATH"):
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def private_listener(path: Path) -> socket.socket:
    """Return a socket that only this user can connect to, replacing an existing one. Raises OSError."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with short_path(path) as short:
            listening.bind(short)
    finally:
        os.umask(before)
    return listening
