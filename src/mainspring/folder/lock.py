"""`.scheduler.lock`: one scheduler per folder (FLD-4).

Two things hold a folder. The kernel's lock on the file says whether the holder lives: while it is held, the folder is
taken, however old the heartbeat (the holder may be stopped, or its machine may have slept). The kernel of another
machine may know nothing of it, so the heartbeat in the file counts as well, for a minute.

    kernel's lock    the file is of       heartbeat    the folder is
    held             anybody              any          taken
    free             this host            any          free: its holder is dead
    free             another host         young        taken
    free             another host         old          free
    free             nobody (garbage)     none         free

Where the file system has no kernel's locks, the process with the number in the file decides for this host.

1. The file is made whole under another name and linked into place: a process that is killed leaves no half file.
2. A heartbeat is one write of always the same length into the same file: the lock is on the file, not on its name.
3. Only who has the kernel's lock of a file, and finds that file under the name, removes it. So of two that want a free
   folder one gets it.
4. The file is never opened through a link, and no child process inherits it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import psutil
import structlog

from mainspring.folder.state import safe_files
from mainspring.folder.state.records import LOCK_FILE, LockRecord
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import InvalidFile, Refused, SchedulerLockError
from mainspring.protocol.ids import entropy

STALE_SECONDS = 60.0

_LENGTH = 1024
"""Of the file: more than any record takes, filled up with spaces."""
_MOST_TRIES = 100
_WITHOUT_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
"""What a file system answers that has no kernel locks."""
_UNSURE = timedelta(seconds=2)
"""How far the start of a process, as the system knows it, and the time that it wrote may be apart."""

log = structlog.get_logger()


class FolderLock:
    """The lock of one folder."""

    def __init__(self, root: Path, clock: Clock, *, stale_seconds: float = STALE_SECONDS) -> None:
        self._root = root
        self._path = root / LOCK_FILE
        self._clock = clock
        self._stale = timedelta(seconds=stale_seconds)
        self._file: int | None = None
        self._record: LockRecord | None = None
        self._has_kernel_locks = True

    def acquire(self) -> None:
        """Take the folder. Raises SchedulerLockError, with who has it, or Refused if there can be no lock here."""
        if self._file is not None:
            raise RuntimeError("this lock is held already")
        for _ in range(_MOST_TRIES):
            self._clear()
            if self._make():
                self._sweep()
                return
        raise SchedulerLockError(f"{self._path} changes hands all the time")

    def beat(self) -> bool:
        """Say that we live. False: the lock is not ours any more, and we must stop at once."""
        if self._file is None or self._record is None or not self._is_ours():
            return False
        self._record = msgspec.structs.replace(self._record, heartbeat=self._clock.wall())
        try:
            _write(self._file, self._record)
        except OSError as error:
            # The next one may work. Meanwhile another host may take the folder, which the next look at it tells us.
            log.warning("lock.no_heartbeat", path=str(self._path), error=error.strerror)
        return True

    def release(self) -> None:
        """Give the folder back. Does nothing if it was lost, or never taken."""
        if self._file is None:
            return
        try:
            if self._is_ours():
                self._path.unlink(missing_ok=True)
        except OSError as error:
            # The kernel's lock ends with us all the same, so on this host nobody has to wait.
            log.warning("lock.not_removed", path=str(self._path), error=error.strerror)
        finally:
            os.close(self._file)
            self._file = self._record = None

    def _clear(self) -> None:
        """Remove the lock of somebody who is gone. Raises SchedulerLockError if they are not."""
        file = self._open()
        if file is None:
            return
        try:
            held = not self._lock(file)
            record = _read(file)
            if held:
                raise self._taken(record)
            if not self._is_at_path(file):
                return
            if record is not None and (self._is_fresh_elsewhere(record) or self._is_alive_here(record)):
                raise self._taken(record)
            self._path.unlink(missing_ok=True)
            _say_taken_over(self._path, record)
        except OSError as error:
            raise self._unusable(error) from error
        finally:
            os.close(file)

    def _make(self) -> bool:
        """Make the lock ours; False if somebody was quicker."""
        now = self._clock.wall()
        record = LockRecord(pid=os.getpid(), hostname=_hostname(), started_at=now, heartbeat=now)
        new = self._path.with_name(f"{LOCK_FILE}.{entropy():016x}.new")
        try:
            file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            self._lock(file)
            _write(file, record)
            _publish(new, self._path)
        except (FileExistsError, FileNotFoundError):
            os.close(file)
            return False
        except OSError as error:
            os.close(file)
            raise self._unusable(error) from error
        finally:
            with contextlib.suppress(OSError):  # what is left is swept away by the next holder
                new.unlink()
        self._file, self._record = file, record
        return True

    def _open(self) -> int | None:
        """The file under our name; None if there is none."""
        flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            try:
                file = os.open(
                    self._path, os.O_RDWR | flags
                )  # a kernel's lock over a network asks for the right to write
            except (PermissionError, IsADirectoryError):
                file = os.open(self._path, os.O_RDONLY | flags)  # enough to see who has it
        except FileNotFoundError:
            return None
        except OSError as error:
            if self._path.is_symlink():
                raise _not_a_file(self._path, "a symbolic link") from error
            raise self._unusable(error) from error
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise _not_a_file(self._path, "a directory" if self._path.is_dir() else "no regular file")
        return file

    def _lock(self, file: int) -> bool:
        """Take the kernel's lock on a file; False if somebody has it. Where there are no such locks, nobody has."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _WITHOUT_LOCKS:
                raise
            if self._has_kernel_locks:
                log.warning(
                    "lock.by_heartbeat_only",
                    path=str(self._path),
                    because=f"the file system has no locks ({error.strerror})",
                )
            self._has_kernel_locks = False
        return True

    def _is_at_path(self, file: int) -> bool:
        try:
            there = self._path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return os.path.samestat(os.fstat(file), there)

    def _is_ours(self) -> bool:
        if self._file is None or self._record is None:
            return False
        try:
            if not self._is_at_path(self._file):
                return False
            record = _read(self._file)
        except OSError as error:
            # The disk does not answer, which says nothing about who has the lock: the next look decides.
            log.warning("lock.not_seen", path=str(self._path), error=error.strerror)
            return True
        return record is not None and _same_holder(record, self._record)

    def _is_fresh_elsewhere(self, record: LockRecord) -> bool:
        """Another host has it, and was heard of lately. One whose clock is ahead of ours counts as fresh."""
        return record.hostname != _hostname() and self._clock.wall() - record.heartbeat < self._stale

    def _is_alive_here(self, record: LockRecord) -> bool:
        """A process of this host has it. Only where the kernel can't tell."""
        if self._has_kernel_locks or record.hostname != _hostname() or record.pid == os.getpid():
            return False
        return _lives(record)

    def _taken(self, record: LockRecord | None) -> SchedulerLockError:
        if record is None:
            return SchedulerLockError(
                f"another scheduler has {self._root}: who, {self._path} does not say\nhint: `fuser {self._path}` does"
            )
        silent = max(0, round((self._clock.wall() - record.heartbeat).total_seconds()))
        if record.hostname != _hostname():
            left = max(1, round(self._stale.total_seconds()) - silent)
            hint = f"stop it there. If that machine is gone, wait {left} s, or delete {self._path}"
        elif silent > self._stale.total_seconds():
            pid = record.pid
            hint = f"it is stopped or hangs: continue it with `kill -CONT {pid}`, or end it with `kill -9 {pid}`"
        else:
            hint = f"use that one, or stop it with `kill {record.pid}`"
        return SchedulerLockError(
            f"another scheduler has {self._root}: process {record.pid} on {record.hostname}, since "
            f"{_said(record.started_at)}, last heard of {silent} s ago ({_said(record.heartbeat)})\nhint: {hint}"
        )

    def _unusable(self, error: OSError) -> Refused:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return Refused(f"{self._root} is not a directory")
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            return Refused(
                f"{self._root} can't be written to ({error.strerror}): a scheduler keeps its lock and its state there\n"
                "hint: give this user the right to write, or copy the folder"
            )
        return Refused(f"{self._path} can't be used as a lock: {error.strerror}")

    def _sweep(self) -> None:
        """Remove what killed processes left beside the lock. One that somebody is at just now makes them try again."""
        for left in self._root.glob(f"{LOCK_FILE}.*.new"):
            with contextlib.suppress(OSError):  # it does no harm
                left.unlink()


def is_held(root: Path, now: datetime) -> bool:
    """Whether a scheduler seems to run a folder, for somebody who only looks: the lock is left alone."""
    try:
        data = safe_files.read(root / LOCK_FILE, most_bytes=_LENGTH)
    except InvalidFile:
        return False
    record = None if data is None else _decode(data)
    if record is None:
        return False
    if record.hostname == _hostname():
        return _lives(record)
    return now - record.heartbeat < timedelta(seconds=STALE_SECONDS)


def _lives(record: LockRecord) -> bool:
    """Whether the process that wrote this, on this host, is still there."""
    try:
        process = psutil.Process(record.pid)
        began, is_over = process.create_time(), process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
    # A process that began after the lock was taken has only the same number.
    return not is_over and began <= (record.started_at + _UNSURE).timestamp()


def _publish(new: Path, path: Path) -> None:
    """Give a file the name `path`, if nobody has it."""
    try:
        os.link(new, path, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        # A file system without hard links. Two that are here at the same moment: the first sees its lock replaced.
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        new.rename(path)


def _write(file: int, record: LockRecord) -> None:
    data = safe_files.encode(record).rstrip().ljust(_LENGTH - 1) + b"\n"
    if os.pwrite(file, data, 0) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _read(file: int) -> LockRecord | None:
    """What a lock says; None if that is no record."""
    return _decode(os.pread(file, _LENGTH + 1, 0))


def _decode(data: bytes) -> LockRecord | None:
    try:
        record = msgspec.json.decode(data, type=LockRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return record if safe_files.can_be(record.started_at, record.heartbeat) else None


def _same_holder(one: LockRecord, other: LockRecord) -> bool:
    return (one.pid, one.hostname, _said(one.started_at)) == (other.pid, other.hostname, _said(other.started_at))


def _hostname() -> str:
    return socket.gethostname()[:255]


def _said(at: datetime) -> str:
    return safe_files.written_time(at)


def _not_a_file(path: Path, what: str) -> Refused:
    return Refused(f"{path} is {what}, and a lock is a file of its own\nhint: look at it, and delete it")


def _say_taken_over(path: Path, record: LockRecord | None) -> None:
    if record is None:
        log.warning("lock.taken_over", path=str(path), because="it says nothing that we can read")
    else:
        log.info(
            "lock.taken_over",
            path=str(path),
            pid=record.pid,
            hostname=record.hostname,
            because="its process is gone" if record.hostname == _hostname() else "its heartbeat is old",
            heartbeat=_said(record.heartbeat),
        )
