"""Orphans of a supervisor: killed only if pid and start time match the spool."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import psutil
import pytest

from mainspring.worker.agent.instructions import Mark, Record
from mainspring.worker.supervisor.orphans import ProcessStartTimes, created, kill_orphans

pytestmark = pytest.mark.processes


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a child, in its own group."""
    command = ["/bin/sh", "-c", "sleep 300 & echo up; wait"]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.stdout.close()
    process.kill()
    process.wait()


def test_an_orphan_is_killed(sleeper: subprocess.Popen[bytes]) -> None:
    """With its children."""
    child = psutil.Process(sleeper.pid).children()
    kill_orphans([Record(Mark.STARTED, "a", sleeper.pid, created(sleeper.pid))])

    assert created(sleeper.pid) == 0.0
    assert not any(one.is_running() for one in child)


@pytest.mark.parametrize("wrong", [0.0, 1.0])
def test_a_process_with_a_reused_pid_is_not_killed(sleeper: subprocess.Popen[bytes], wrong: float) -> None:
    """Or without a known start time."""
    kill_orphans([Record(Mark.STARTED, "a", sleeper.pid, wrong)])

    assert sleeper.poll() is None


def test_a_missing_process_is_ignored(sleeper: subprocess.Popen[bytes]) -> None:
    """It ended before."""
    stray = Record(Mark.STARTED, "a", sleeper.pid, created(sleeper.pid))
    sleeper.kill()
    sleeper.wait()

    kill_orphans([stray])
    assert created(sleeper.pid) == 0.0


def test_a_start_time_is_cached_until_the_process_is_gone(
    sleeper: subprocess.Popen[bytes],
) -> None:
    """Warm children make thousands of calls."""
    births = ProcessStartTimes()
    first, own = created(sleeper.pid), created(os.getpid())
    assert (births.of(sleeper.pid), births.of(os.getpid())) == (first, own)
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(psutil, "Process")
        assert (births.of(sleeper.pid), births.of(os.getpid())) == (first, own)
    sleeper.kill()
    sleeper.wait()

    assert births.of(sleeper.pid) == 0.0
