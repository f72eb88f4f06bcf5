"""Read-only check whether a scheduler runs a folder."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from mainspring.folder.lock import FolderLock, is_locked
from mainspring.folder.state.records import LOCK_FILE, LockRecord
from mainspring.folder.state.safe_files import encode
from mainspring.protocol.clock import SystemClock
from mainspring.testing import FrozenClock

SECONDS = timedelta(seconds=1)
NOW = SystemClock().wall()


def left_behind(root: Path, hostname: str, pid: int) -> None:
    """The lock file of a scheduler whose last heartbeat is half a minute old."""
    at = NOW - 30 * SECONDS
    (root / LOCK_FILE).write_bytes(encode(LockRecord(pid=pid, hostname=hostname, started_at=at, heartbeat=at)))


def test_a_folder_is_locked_while_the_lock_is_held_and_checking_does_not_touch_it(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path, FrozenClock(NOW))
    assert not is_locked(tmp_path, NOW)
    lock.acquire()
    before = (tmp_path / LOCK_FILE).read_bytes()

    assert is_locked(tmp_path, NOW + timedelta(days=1)), "however long it was silent"
    assert ((tmp_path / LOCK_FILE).read_bytes(), lock.renew()) == (before, True)
    lock.release()
    assert not is_locked(tmp_path, NOW)


@pytest.mark.processes
def test_a_zombie_process_does_not_hold_the_lock(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert process.stdout is not None
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    left_behind(tmp_path, socket.gethostname(), process.pid)

    assert not is_locked(tmp_path, NOW)
    process.communicate()
    assert not is_locked(tmp_path, NOW)


@pytest.mark.processes
def test_a_reused_process_id_does_not_hold_the_lock(tmp_path: Path) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        left_behind(tmp_path, socket.gethostname(), process.pid)

        assert not is_locked(tmp_path, NOW)


def test_the_heartbeat_of_another_host_counts(tmp_path: Path) -> None:
    left_behind(tmp_path, "elsewhere", 1)

    assert is_locked(tmp_path, NOW)
    assert not is_locked(tmp_path, NOW + 30 * SECONDS)


@pytest.mark.parametrize("garbage", ["", "garbage", "{}", "x" * 10_000])
def test_a_garbage_record_has_no_holder(tmp_path: Path, garbage: str) -> None:
    (tmp_path / LOCK_FILE).write_text(garbage)

    assert not is_locked(tmp_path, NOW)
