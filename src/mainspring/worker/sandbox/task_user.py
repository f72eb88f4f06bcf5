"""The user that tasks run as, if it is another one than the worker's own (WRK-4). Only root can do that."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from mainspring.protocol.errors import Refused

_ROOT = 0


class TaskUser(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody else than the worker."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    home: str = "/"


def find_user(name: str) -> TaskUser:
    """The user of this name, with the groups it is in. Raises Refused if tasks can't run as that."""
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise Refused(f"there is no user {name} here") from None
    if found.pw_uid == _ROOT:
        raise Refused(f"{name} is root: --as-root says that tasks may run as that")
    if os.geteuid() != _ROOT:
        raise Refused(f"only root can run tasks as {name}: start the worker as that user, or as root")
    groups = tuple(sorted(os.getgrouplist(name, found.pw_gid)))
    return TaskUser(name=name, uid=found.pw_uid, gid=found.pw_gid, groups=groups, home=found.pw_dir)


def give(top: Path, user: TaskUser) -> None:
    """Let a directory and all in it belong to a user. Nothing that a link points to changes. Raises OSError."""
    for place, directories, files in os.walk(top):
        os.chown(place, user.uid, user.gid, follow_symlinks=False)
        for name in (*directories, *files):
            os.chown(Path(place, name), user.uid, user.gid, follow_symlinks=False)


def run_as(
    user: TaskUser | None, words: Sequence[str], environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[bytes]:
    """Run something short as this user, or as the worker itself. Raises OSError or TimeoutExpired."""
    return subprocess.run(
        words, capture_output=True, env=environment, timeout=seconds, check=False,
        user=None if user is None else user.uid,
        group=None if user is None else user.gid,
        extra_groups=None if user is None else list(user.groups),
    )  # fmt: skip


def closed_to(user: TaskUser, directory: Path) -> Path | None:
    """The first directory on the way, from the root on, that this user may not pass; None if there is none."""
    for place in (*reversed(directory.parents), directory):
        status = place.stat()
        if status.st_uid == user.uid:
            bit = stat.S_IXUSR
        elif status.st_gid in (user.gid, *user.groups):
            bit = stat.S_IXGRP
        else:
            bit = stat.S_IXOTH
        if not status.st_mode & bit:
            return place
    return None
