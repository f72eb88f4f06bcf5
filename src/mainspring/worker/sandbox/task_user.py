"""User that runs the tasks, if it is not the worker's own (WRK-4). Requires root."""

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
    """A user other than the worker's."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    home: str = "/"


def find_user(name: str) -> TaskUser:
    """Return the user with its groups. Raises Refused if tasks can't run as that user."""
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise Refused(f"user {name} does not exist") from None
    if found.pw_uid == _ROOT:
        raise Refused(f"{name} is root: use --as-root to run tasks as root")
    if os.geteuid() != _ROOT:
        raise Refused(f"running tasks as {name} requires root: start the worker as {name}, or as root")
    groups = tuple(sorted(os.getgrouplist(name, found.pw_gid)))
    return TaskUser(name=name, uid=found.pw_uid, gid=found.pw_gid, groups=groups, home=found.pw_dir)


def change_owner(top: Path, user: TaskUser) -> None:
    """Change the owner of a directory tree without following links. Raises OSError."""
    for place, directories, files in os.walk(top):
        os.chown(place, user.uid, user.gid, follow_symlinks=False)
        for name in (*directories, *files):
            os.chown(Path(place, name), user.uid, user.gid, follow_symlinks=False)


def run_as(
    user: TaskUser | None, argv: Sequence[str], environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[bytes]:
    """Run a short command without input as this user, or as the worker. Raises OSError or TimeoutExpired."""
    return subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, env=environment, timeout=seconds, check=False,
        user=None if user is None else user.uid,
        group=None if user is None else user.gid,
        extra_groups=None if user is None else list(user.groups),
    )  # fmt: skip


def first_inaccessible(user: TaskUser, directory: Path) -> Path | None:
    """Return the first directory on the path that this user can't traverse; None if there is none."""
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
