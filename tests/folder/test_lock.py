"""One scheduler per folder: acquiring, refusing and losing the lock (FLD-4)."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mainspring.folder.lock import FolderLock
from mainspring.folder.state.records import LOCK_FILE, LockRecord
from mainspring.folder.state.safe_files import encode, format_time
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Refused, SchedulerLockError
from mainspring.testing import FrozenClock
from tests.folder.lock_holder import lock_holder
from tests.folder.unprivileged import shared_folder, without_privileges

pytestmark = pytest.mark.processes
HERE = socket.gethostname()


@pytest.fixture
def clock() -> FrozenClock:
    """The current time, until a test advances it."""
    return FrozenClock(SystemClock().wall())


@pytest.fixture
def lock(tmp_path: Path, clock: FrozenClock) -> Iterator[FolderLock]:
    """A lock of the folder, not acquired."""
    lock = FolderLock(tmp_path, clock)
    yield lock
    lock.release()


def left_behind(root: Path, clock: FrozenClock, *, hostname: str = HERE, pid: int, seconds_ago: float = 0) -> None:
    """Write the lock file of another scheduler."""
    at = clock.wall() - timedelta(seconds=seconds_ago)
    record = LockRecord(pid=pid, hostname=hostname, started_at=at, heartbeat=at)
    (root / LOCK_FILE).write_bytes(encode(record))


def content(root: Path) -> dict[str, object]:
    """Read the lock file."""
    read = json.loads((root / LOCK_FILE).read_bytes())
    assert isinstance(read, dict)
    return read


def dead_pid() -> int:
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


# contention


def test_the_lock_file_names_the_holder_in_the_documented_format(
    tmp_path: Path, lock: FolderLock, clock: FrozenClock
) -> None:
    """As in seed 002: four fields, times in UTC with milliseconds."""
    lock.acquire()

    began = format_time(clock.wall())
    assert content(tmp_path) == {"pid": os.getpid(), "hostname": HERE, "startedAt": began, "heartbeat": began}
    clock.advance(10)
    assert lock.renew()
    assert content(tmp_path)["startedAt"] == began
    assert content(tmp_path)["heartbeat"] == format_time(clock.wall())


def test_a_second_scheduler_is_refused_with_the_holder_in_the_error(tmp_path: Path, lock: FolderLock) -> None:
    """Process, host, start, last heartbeat and a hint."""
    with lock_holder(tmp_path) as holder:
        since = content(tmp_path)["startedAt"]
        with pytest.raises(SchedulerLockError) as refused:
            lock.acquire()

    words = str(refused.value)
    assert f"process {holder.pid} on {HERE}, since {since}, last heartbeat" in words
    assert f"`kill {holder.pid}`" in words


def test_a_second_scheduler_is_refused_even_if_the_record_is_unreadable(tmp_path: Path, lock: FolderLock) -> None:
    """The record was overwritten, but the kernel lock is held."""
    with lock_holder(tmp_path) as holder:
        (tmp_path / LOCK_FILE).write_text("garbage")
        with pytest.raises(SchedulerLockError, match="is unreadable"):
            lock.acquire()
        assert holder.ask("beat") == "False"


def test_a_released_folder_is_free_without_leftovers(tmp_path: Path, lock: FolderLock) -> None:
    """Releasing twice does no harm."""
    with lock_holder(tmp_path) as holder:
        assert holder.ask("release") == "released"
        assert list(tmp_path.iterdir()) == []
        lock.acquire()
        assert lock.renew()
    lock.release()
    lock.release()
    assert list(tmp_path.iterdir()) == []
    assert not lock.renew()


def test_of_many_concurrent_schedulers_one_gets_the_lock(tmp_path: Path, clock: FrozenClock) -> None:
    """Each round starts without a lock file, or with that of a dead process."""
    pid = dead_pid()
    for turn in range(30):
        if turn % 2:
            left_behind(tmp_path, clock, pid=pid)
        locks = [FolderLock(tmp_path, clock) for _ in range(6)]
        got: list[FolderLock] = []
        start = threading.Barrier(len(locks))

        def want(lock: FolderLock, start: threading.Barrier = start, got: list[FolderLock] = got) -> None:
            start.wait()
            with contextlib.suppress(SchedulerLockError):
                lock.acquire()
                got.append(lock)

        threads = [threading.Thread(target=want, args=[lock]) for lock in locks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(got) == 1
        assert got[0].renew()
        got[0].release()


# dead holders


def test_the_lock_of_a_killed_process_is_taken_over_at_once(tmp_path: Path, lock: FolderLock) -> None:
    """Its heartbeat is recent, but the kernel lock is free."""
    with lock_holder(tmp_path) as holder:
        holder.kill()
        with capture_logs() as logs:
            lock.acquire()

    assert [(entry["event"], entry["pid"]) for entry in logs] == [("lock.taken_over", holder.pid)]
    assert content(tmp_path)["pid"] == os.getpid()


def test_a_child_of_a_killed_process_does_not_keep_the_lock(tmp_path: Path, lock: FolderLock) -> None:
    """Even one that inherits every inheritable descriptor."""
    with lock_holder(tmp_path) as holder:
        child = int(holder.ask("spawn"))
        try:
            holder.kill()
            lock.acquire()
        finally:
            os.kill(child, signal.SIGKILL)
    assert lock.renew()


def test_a_reused_process_id_is_not_a_holder(tmp_path: Path, lock: FolderLock, clock: FrozenClock) -> None:
    """The parent process is alive and never held the lock."""
    left_behind(tmp_path, clock, pid=os.getppid())
    lock.acquire()
    assert lock.renew()


def test_a_kill_at_any_moment_leaves_a_file_that_parses(tmp_path: Path) -> None:
    """The process is killed while it writes heartbeats in a loop."""
    for _ in range(3):
        with lock_holder(tmp_path) as holder:
            assert holder.ask("beat on") == "beating"
            for _ in range(200):
                assert content(tmp_path)["pid"] == holder.pid
            holder.kill()
            assert content(tmp_path)["pid"] == holder.pid


def test_leftovers_of_killed_processes_are_removed(tmp_path: Path, lock: FolderLock) -> None:
    """A temporary lock file that was never renamed."""
    (tmp_path / f"{LOCK_FILE}.0123456789abcdef.new").write_text("{}")
    lock.acquire()
    assert [path.name for path in tmp_path.iterdir()] == [LOCK_FILE]


# suspended holders and other hosts


def test_a_stopped_process_keeps_the_lock_despite_an_old_heartbeat(
    tmp_path: Path, lock: FolderLock, clock: FrozenClock
) -> None:
    """It may resume at any time, and would run the same pipelines."""
    with lock_holder(tmp_path) as holder:
        os.kill(holder.pid, signal.SIGSTOP)
        clock.advance("2h")
        with pytest.raises(SchedulerLockError, match=f"process {holder.pid} on .*\n.*`kill -CONT {holder.pid}`"):
            lock.acquire()
        os.kill(holder.pid, signal.SIGCONT)
        assert holder.ask("beat") == "True"


@pytest.mark.parametrize("seconds_ago", [0, 59, -3600], ids=["now", "almost a minute", "a clock that is ahead"])
def test_another_host_with_a_recent_heartbeat_keeps_the_lock(
    tmp_path: Path, lock: FolderLock, clock: FrozenClock, seconds_ago: float
) -> None:
    """Its kernel lock is not visible from here."""
    left_behind(tmp_path, clock, hostname="elsewhere", pid=1, seconds_ago=seconds_ago)
    before = (tmp_path / LOCK_FILE).read_bytes()
    with pytest.raises(SchedulerLockError, match=r"process 1 on elsewhere, since .*\nhint: stop it there"):
        lock.acquire()
    assert (tmp_path / LOCK_FILE).read_bytes() == before


def test_another_host_without_a_heartbeat_for_a_minute_loses_the_lock(
    tmp_path: Path, lock: FolderLock, clock: FrozenClock
) -> None:
    """Its process may be alive: it detects that its lock was replaced."""
    left_behind(tmp_path, clock, hostname="elsewhere", pid=1, seconds_ago=60)
    with capture_logs() as logs:
        lock.acquire()
    assert [entry["because"] for entry in logs] == ["its heartbeat is old"]


# invalid lock files


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"[]",
        b"12345",
        b'{"pid": "12"}',
        b'{"pid": 1, "hostname": "h", "startedAt": "2026-01-26T08:00:00", "heartbeat": "2026-01-26T08:00:00"}',
        b"[" * 5_000,
        b" " * 5_000_000,
    ],
    ids=["empty", "cut", "binary", "list", "number", "wrong type", "no time zone", "deep", "large"],
)
def test_garbage_is_replaced_with_a_warning(tmp_path: Path, lock: FolderLock, garbage: bytes) -> None:
    """It is replaced, not overwritten: a hard link to it keeps its content."""
    (tmp_path / LOCK_FILE).write_bytes(garbage)
    (tmp_path / "other").hardlink_to(tmp_path / LOCK_FILE)
    with capture_logs() as logs:
        lock.acquire()
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("lock.taken_over", "warning")]
    assert content(tmp_path)["pid"] == os.getpid()
    assert (tmp_path / "other").read_bytes() == garbage


def _link(path: Path) -> None:
    path.with_name("target").write_text("precious")
    path.symlink_to("target")


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (_link, "a symbolic link"),
        (lambda path: path.symlink_to("nowhere"), "a symbolic link"),
        (lambda path: path.mkdir(), "a directory"),
        (os.mkfifo, "no regular file"),
    ],
    ids=["link", "dangling link", "directory", "pipe"],
)
def test_a_lock_that_is_not_a_regular_file_is_refused_and_not_touched(
    tmp_path: Path, lock: FolderLock, make: Callable[[Path], None], what: str
) -> None:
    """A link or pipe can't redirect the write, or block it."""
    make(tmp_path / LOCK_FILE)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(Refused, match=f"{LOCK_FILE} is {what}"):
        lock.acquire()
    assert sorted(tmp_path.iterdir()) == before
    if (tmp_path / "target").exists():
        assert (tmp_path / "target").read_text() == "precious"


def test_a_missing_folder_is_refused(tmp_path: Path, clock: FrozenClock) -> None:
    """So is a regular file in its place."""
    (tmp_path / "file").write_text("")
    for name in ("nothing", "file"):
        with pytest.raises(Refused, match=f"{name} is not a directory"):
            FolderLock(tmp_path / name, clock).acquire()


def test_a_read_only_folder_is_refused(clock: FrozenClock) -> None:
    """With a hint."""
    with shared_folder() as folder:
        folder.chmod(0o555)
        with (
            without_privileges(),
            pytest.raises(Refused, match=r"is not writable \(Permission denied\)(.|\n)*hint: "),
        ):
            FolderLock(folder, clock).acquire()


def test_the_holder_of_a_read_only_folder_is_named(clock: FrozenClock) -> None:
    """Another user runs the scheduler there."""
    with shared_folder() as folder, lock_holder(folder) as holder:
        folder.chmod(0o555)
        (folder / LOCK_FILE).chmod(0o444)
        with without_privileges(), pytest.raises(SchedulerLockError, match=f"process {holder.pid}"):
            FolderLock(folder, clock).acquire()


# lost locks


def test_a_holder_detects_that_its_lock_was_removed(tmp_path: Path, lock: FolderLock) -> None:
    """It does not touch the new lock."""
    lock.acquire()
    (tmp_path / LOCK_FILE).unlink()
    assert not lock.renew()

    with lock_holder(tmp_path) as holder:
        assert not lock.renew()
        lock.release()
        assert content(tmp_path)["pid"] == holder.pid
        assert holder.ask("beat") == "True"


def test_a_holder_detects_that_its_record_was_overwritten(tmp_path: Path, lock: FolderLock, clock: FrozenClock) -> None:
    """A program that ignores the kernel lock takes the folder, and its file stays."""
    lock.acquire()
    left_behind(tmp_path, clock, hostname="elsewhere", pid=7)
    assert not lock.renew()
    lock.release()
    assert content(tmp_path)["hostname"] == "elsewhere"


def test_removing_the_folder_ends_the_lock(tmp_path: Path, clock: FrozenClock) -> None:
    """Releasing it then is not an error."""
    (tmp_path / "folder").mkdir()
    lock = FolderLock(tmp_path / "folder", clock)
    lock.acquire()
    (tmp_path / "folder" / LOCK_FILE).unlink()
    (tmp_path / "folder").rmdir()
    assert not lock.renew()
    lock.release()


# file systems without locks


@pytest.fixture
def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without kernel locks."""

    def refuse(_file: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.mark.usefixtures("without_locks")
def test_without_kernel_locks_heartbeat_and_process_decide(
    tmp_path: Path, lock: FolderLock, clock: FrozenClock
) -> None:
    """Logged once. A live process keeps the lock; a dead one, or one younger than the lock, does not."""
    with lock_holder(tmp_path) as holder:
        with pytest.raises(SchedulerLockError, match=f"process {holder.pid}"):
            lock.acquire()
        left_behind(tmp_path, clock, pid=holder.pid, seconds_ago=3600)
        with capture_logs() as logs:
            lock.acquire()
        assert [entry["event"] for entry in logs] == ["lock.taken_over"]
        assert holder.ask("beat") == "False"
    lock.release()

    left_behind(tmp_path, clock, pid=dead_pid())
    other = FolderLock(tmp_path, clock)
    with capture_logs() as logs:
        other.acquire()
    assert [entry["event"] for entry in logs] == ["lock.by_heartbeat_only", "lock.taken_over"]
    assert other.renew()
    other.release()
