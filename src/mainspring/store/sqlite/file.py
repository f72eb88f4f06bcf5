"""Who may open a SQLite file: one process at a time, on a disk of this machine.

SQLite before 3.51.3 can corrupt a WAL database that two connections write or checkpoint at the same moment, and locks
on network file systems can't be relied on. So the whole file is ours or it is refused. The claim is a kernel lock on a
file beside the database: it ends with the process, however that ends, and what is written in it only names the holder.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
from contextlib import suppress
from pathlib import Path

from mainspring.protocol.errors import StoreInUse, StoreUnusable

OLDEST_SQLITE = (3, 37, 0)
"""STRICT tables. RETURNING and UPDATE .. FROM came before."""

_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\w*|ncpfs|afs|9p|ceph|lustre|gfs2?|ocfs2|gpfs|beegfs|glusterfs|virtiofs|davfs"
    r"|fuse\.(sshfs|s3fs|glusterfs|cephfs|rclone|davfs2?|gcsfuse|goofys|mfs|juicefs)"
)


def claim(path: Path) -> int:
    """Make this process the only one that uses the database at `path`; returns a descriptor to close when done.

    A new database can be read by nobody but its user: a worker's tasks may be somebody else's on the same machine.
    Raises StoreInUse, naming the process that has it, or StoreUnusable if the file can't be used safely where it is.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreUnusable(f"SQLite {sqlite3.sqlite_version} is too old: it must be 3.37 or later")
    refuse_network(path)
    # The mark of a holder never goes away: removing it would let a third process lock a file that nobody else sees.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        mark = os.open(path.with_name(f"{path.name}.lock"), flags, 0o600)
    except OSError as error:
        raise StoreUnusable(f"the store at {path} can't be claimed: {error}") from error
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(mark, 32, 0).decode("ascii", "replace").strip()
        os.close(mark)
        raise StoreInUse(f"the store at {path} is in use by process {holder or 'unknown'}") from error
    os.ftruncate(mark, 0)
    os.pwrite(mark, f"{os.getpid()}\n".encode("ascii"), 0)
    with suppress(OSError):  # It is there, or whoever opens it says what is wrong. SQLite's own files have its mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    return mark


def refuse_network(path: Path) -> None:
    """Raises StoreUnusable if `path` is known to be on a network file system. Where that can't be known, it is
    allowed."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return  # not Linux: nobody would notice, and the documentation asks for a local disk
    kind = file_system_of(path, mounts)
    if kind is not None and _NETWORK.fullmatch(kind):
        raise StoreUnusable(
            f"the store at {path} is on a network file system ({kind}): SQLite needs a disk of this machine"
        )


def file_system_of(path: Path, mounts: str) -> str | None:
    """The kind of file system that `path` is on, from the text of /proc/self/mountinfo; None if it is not in there."""
    found: tuple[int, str] | None = None
    for line in mounts.splitlines():
        mount, separator, source = line.partition(" - ")
        fields = mount.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        # Of two mounts on the same point the later one is on top.
        if path.is_relative_to(point) and (found is None or len(point) >= found[0]):
            found = (len(point), source.split(" ")[0])
    return found and found[1]
