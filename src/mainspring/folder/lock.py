"""`.scheduler.lock`: one scheduler per folder (FLD-4).

A folder is locked in two ways. The kernel lock on the file shows that the holder is alive: while it is held, the folder
is locked, however old the heartbeat (the holder may be stopped, or its machine suspended). The kernel of another
machine may not see that lock, so a heartbeat in the file, at most a minute old, also counts.

    kernel lock    written by           heartbeat    the folder is
    held           any host             any          locked
    free           this host            any          free: the holder is dead
    free           another host         recent       locked
    free           another host         stale        free
    free           unknown (garbage)    none         free

On a file system without kernel locks, this host checks the process id in the file instead.

1. The file is written under another name and linked into place: a killed process leaves no partial file.
2. A heartbeat is one write of constant length into the same file: the lock is on the file, not on its name.
3. Only a process that holds the kernel lock of the file at this path removes it. So of two processes that race for a
   free folder, one wins.
4. The file is never opened through a symbolic link, and child processes do not inherit it.
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

from mainspring.atomic_files import rename_without_replacing
from mainspring.folder.state import safe_files
from mainspring.folder.state.records import LOCK_FILE, LockRecord
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import InvalidFile, Refused, SchedulerLockError
from mainspring.protocol.ids import entropy

STALE_SECONDS = 60.0

_FILE_BYTES = 1024
"""Size of the file: larger than any record, padded with spaces."""
_MAX_ATTEMPTS = 100
_NO_LOCK_ERRORS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
"""Errors of a file system without kernel locks."""
_START_TIME_TOLERANCE = timedelta(seconds=2)
"""Allowed difference between a process's start time and the time in its record."""

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
        """Lock the folder. Raises SchedulerLockError, which names the holder, or Refused if locking is impossible."""
        if self._file is not None:
            raise RuntimeError("this lock is already held")
        for _ in range(_MAX_ATTEMPTS):
            self._remove_stale()
            if self._create():
                self._remove_leftovers()
                return
        raise SchedulerLockError(f"{self._path} is contended: other schedulers keep taking it")

    def renew(self) -> bool:
        """Write a heartbeat. False: the lock was lost, and the scheduler must stop at once."""
        if self._file is None or self._record is None or not self._is_ours(self._file, self._record):
            return False
        self._record = msgspec.structs.replace(self._record, heartbeat=self._clock.wall())
        try:
            _write(self._file, self._record)
        except OSError as error:
            # Retried with the next heartbeat. If another host takes the folder meanwhile, that heartbeat detects it.
            log.warning("lock.no_heartbeat", path=str(self._path), error=error.strerror)
        return True

    def release(self) -> None:
        """Unlock the folder. Does nothing if the lock was lost or never acquired."""
        if self._file is None or self._record is None:
            return
        try:
            if self._is_ours(self._file, self._record):
                self._path.unlink(missing_ok=True)
        except OSError as error:
            # The kernel releases its lock anyway, so no process on this host has to wait.
            log.warning("lock.not_removed", path=str(self._path), error=error.strerror)
        finally:
            os.close(self._file)
            self._file = self._record = None

    def _remove_stale(self) -> None:
        """Remove a stale lock. Raises SchedulerLockError if its holder is alive."""
        file = self._open()
        if file is None:
            return
        try:
            held = not self._lock(file)
            record = _read(file)
            if held:
                raise self._locked_error(record)
            if not self._is_at_path(file):
                return
            if record is not None and self._is_alive(record):
                raise self._locked_error(record)
            self._path.unlink(missing_ok=True)
            _log_takeover(self._path, record)
        except OSError as error:
            raise self._unusable_error(error) from error
        finally:
            os.close(file)

    def _create(self) -> bool:
        """Create the lock; False if another process was faster."""
        now = self._clock.wall()
        record = LockRecord(pid=os.getpid(), hostname=_hostname(), started_at=now, heartbeat=now)
        new = self._path.with_name(f"{LOCK_FILE}.{entropy():016x}.new")
        try:
            file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._unusable_error(error) from error
        try:
            self._lock(file)
            _write(file, record)
            rename_without_replacing(new, self._path)
        except (FileExistsError, FileNotFoundError):
            os.close(file)
            return False
        except OSError as error:
            os.close(file)
            raise self._unusable_error(error) from error
        finally:
            with contextlib.suppress(OSError):  # the next holder removes leftovers
                new.unlink()
        self._file, self._record = file, record
        return True

    def _open(self) -> int | None:
        """Open the lock file; None if there is none."""
        flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            try:
                # A kernel lock on a network file system needs write access.
                file = os.open(self._path, os.O_RDWR | flags)
            except (PermissionError, IsADirectoryError):
                file = os.open(self._path, os.O_RDONLY | flags)  # enough to read the holder
        except FileNotFoundError:
            return None
        except OSError as error:
            if self._path.is_symlink():
                raise _not_a_file_error(self._path, "a symbolic link") from error
            raise self._unusable_error(error) from error
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise _not_a_file_error(self._path, "a directory" if self._path.is_dir() else "no regular file")
        return file

    def _lock(self, file: int) -> bool:
        """Take the kernel lock on a file; False if it is held. True where the file system has no such locks."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _NO_LOCK_ERRORS:
                raise
            if self._has_kernel_locks:
                because = f"the file system has no locks ({error.strerror})"
                log.warning("lock.by_heartbeat_only", path=str(self._path), because=because)
            self._has_kernel_locks = False
        return True

    def _is_at_path(self, file: int) -> bool:
        try:
            there = self._path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return os.path.samestat(os.fstat(file), there)

    def _is_ours(self, file: int, written: LockRecord) -> bool:
        try:
            if not self._is_at_path(file):
                return False
            record = _read(file)
        except OSError as error:
            # A disk error does not tell who holds the lock: the next heartbeat checks again.
            log.warning("lock.not_seen", path=str(self._path), error=error.strerror)
            return True
        return record is not None and _same_holder(record, written)

    def _is_alive(self, record: LockRecord) -> bool:
        """Whether the holder is alive, although its kernel lock is free or not visible here."""
        if record.hostname != _hostname():
            # A heartbeat in the future (clock skew) counts as recent.
            return self._clock.wall() - record.heartbeat < self._stale
        return not self._has_kernel_locks and record.pid != os.getpid() and _is_process_alive(record)

    def _locked_error(self, record: LockRecord | None) -> SchedulerLockError:
        if record is None:
            return SchedulerLockError(
                f"another scheduler has {self._root}; {self._path} is unreadable\nhint: try `fuser {self._path}`"
            )
        silent_seconds = max(0, round((self._clock.wall() - record.heartbeat).total_seconds()))
        if record.hostname != _hostname():
            left = max(1, round(self._stale.total_seconds()) - silent_seconds)
            hint = f"stop it there; if that machine is gone, wait {left} s or delete {self._path}"
        elif silent_seconds > self._stale.total_seconds():
            pid = record.pid
            hint = f"it is suspended or hung: continue it with `kill -CONT {pid}`, or kill it with `kill -9 {pid}`"
        else:
            hint = f"use that one, or stop it with `kill {record.pid}`"
        return SchedulerLockError(
            f"another scheduler has {self._root}: process {record.pid} on {record.hostname}, since "
            f"{safe_files.format_time(record.started_at)}, last heartbeat {silent_seconds} s ago "
            f"({safe_files.format_time(record.heartbeat)})\nhint: {hint}"
        )

    def _unusable_error(self, error: OSError) -> Refused:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return Refused(f"{self._root} is not a directory")
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            return Refused(
                f"{self._root} is not writable ({error.strerror}): a scheduler keeps its lock and state files there\n"
                "hint: give this user write permission, or copy the folder"
            )
        return Refused(f"can't lock {self._path}: {error.strerror}")

    def _remove_leftovers(self) -> None:
        """Remove temporary files of killed processes. A live process whose file is removed retries."""
        for left in self._root.glob(f"{LOCK_FILE}.*.new"):
            with contextlib.suppress(OSError):  # leftovers are harmless
                left.unlink()


def is_locked(root: Path, now: datetime) -> bool:
    """Whether a scheduler seems to run the folder. Read-only: the lock is not touched."""
    try:
        data = safe_files.read(root / LOCK_FILE, max_bytes=_FILE_BYTES)
    except InvalidFile:
        return False
    record = None if data is None else _decode(data)
    if record is None:
        return False
    if record.hostname == _hostname():
        return _is_process_alive(record)
    return now - record.heartbeat < timedelta(seconds=STALE_SECONDS)


def _is_process_alive(record: LockRecord) -> bool:
    """Whether the process that wrote a record on this host is alive."""
    try:
        process = psutil.Process(record.pid)
        began, is_zombie = process.create_time(), process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
    # A process that started after the lock was taken is another one with the same id.
    return not is_zombie and began <= (record.started_at + _START_TIME_TOLERANCE).timestamp()


def _write(file: int, record: LockRecord) -> None:
    data = safe_files.encode(record).rstrip().ljust(_FILE_BYTES - 1) + b"\n"
    if os.pwrite(file, data, 0) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _read(file: int) -> LockRecord | None:
    return _decode(os.pread(file, _FILE_BYTES + 1, 0))


def _decode(data: bytes) -> LockRecord | None:
    """Decode a lock's record; None if it is not one."""
    try:
        record = msgspec.json.decode(data, type=LockRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return record if safe_files.is_plausible(record.started_at, record.heartbeat) else None


def _same_holder(one: LockRecord, other: LockRecord) -> bool:
    starts = {safe_files.format_time(record.started_at) for record in (one, other)}
    return (one.pid, one.hostname) == (other.pid, other.hostname) and len(starts) == 1


def _hostname() -> str:
    return socket.gethostname()[:255]


def _not_a_file_error(path: Path, what: str) -> Refused:
    return Refused(f"{path} is {what}; the lock must be a regular file\nhint: check it, then delete it")


def _log_takeover(path: Path, record: LockRecord | None) -> None:
    if record is None:
        log.warning("lock.taken_over", path=str(path), because="its record is unreadable")
    else:
        log.info(
            "lock.taken_over",
            path=str(path),
            pid=record.pid,
            hostname=record.hostname,
            because="its process is gone" if record.hostname == _hostname() else "its heartbeat is old",
            heartbeat=safe_files.format_time(record.heartbeat),
        )
