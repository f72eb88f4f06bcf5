"""The demo as a process: it works and cleans up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.cluster import until

pytestmark = pytest.mark.processes

COMMAND = [sys.executable, "-m", "mainspring.cli.main", "demo"]
CHECK_SECONDS = 200
END_SECONDS = 60


@pytest.fixture
def place() -> Iterator[Path]:
    """Directory for the demo's folder; its processes are found by this path."""
    with tempfile.TemporaryDirectory(prefix="ms-") as folder:
        yield Path(folder).resolve()
        for process in _left(Path(folder).resolve()):
            process.kill()


def start(place: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    """Start a demo. It must ignore settings for another server."""
    elsewhere = {"MAINSPRING_API_KEY": "mst_of_another", "MAINSPRING_TENANT": "another"}
    return subprocess.Popen(
        [*COMMAND, "--port", "0", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **elsewhere, "TMPDIR": str(place), "PYTHONUNBUFFERED": "1", **environment},
    )


def assert_nothing_is_left(place: Path) -> None:
    """Assert that no process and no file remain."""
    until(lambda: not _left(place), f"the processes below {place} are gone", seconds=10)
    assert list(place.iterdir()) == []


@pytest.mark.timeout(CHECK_SECONDS + END_SECONDS)
def test_all_checks_of_the_demo_pass(place: Path) -> None:
    process = start(place, "--check", "-o", "json")
    out, err = process.communicate(timeout=CHECK_SECONDS)

    checks = json.loads(out)
    assert [check for check in checks if not check["ok"]] == []
    assert {check["scene"] for check in checks} == {
        "heartbeat", "weather", "orders", "thumbs", "flood", "invoices", "thumb", "kill", "storm", "totals",
    }  # fmt: skip
    assert (process.returncode, err) == (0, "")
    assert_nothing_is_left(place)


def test_an_interrupt_shuts_down_gracefully(place: Path) -> None:
    process = start(place, "--speed", "20")
    assert process.stdout is not None
    try:
        until(lambda: "in parallel" in process.stdout.readline(), "a fan-out has begun")  # type: ignore[union-attr]
        assert _left(place)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=END_SECONDS)
    finally:
        process.kill()
        process.wait()

    assert (process.returncode, err) == (0, "")
    assert "running tasks and 6 workers, removed" in out
    assert "\x1b" not in out
    assert_nothing_is_left(place)


def test_two_interrupts_shut_down_immediately(place: Path) -> None:
    process = start(place, "--speed", "20")
    assert process.stdout is not None
    try:
        until(lambda: "Ready in" in process.stdout.readline(), "it is ready")  # type: ignore[union-attr]
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=END_SECONDS)
    finally:
        process.kill()
        process.wait()

    assert process.returncode == 130
    assert_nothing_is_left(place)


def _left(place: Path) -> list[psutil.Process]:
    """Find remaining processes: workers and supervisors by their arguments, tasks by their working directory."""
    running = (one for one in psutil.process_iter(["cmdline", "cwd"]) if one.info["cwd"] is not None)
    return [one for one in running if any(str(place) in word for word in (*one.info["cmdline"], one.info["cwd"]))]
