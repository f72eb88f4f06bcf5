"""Importing the package has no side effects: no thread, server or file, and no modules that create them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "weather.py"
AFTERWARDS = """
import os, sys, threading
heavy = {"uvicorn", "asyncpg", "starlette", "websockets", "sqlite3", "structlog", "mainspring.store", "mainspring.host"}
assert threading.active_count() == 1, threading.enumerate()
assert not heavy & set(sys.modules), heavy & set(sys.modules)
fds = set(os.listdir("/proc/self/fd")) - {"0", "1", "2"}
assert not [fd for fd in fds if os.path.exists(f"/proc/self/fd/{fd}")]
assert not os.listdir("."), os.listdir(".")
"""


@pytest.mark.processes
@pytest.mark.parametrize(
    "code",
    [
        "import mainspring",
        "from mainspring import Client, Context, Retry, TaskError, after, cron, current, every, job, once, serve, task",
        f"import runpy; runpy.run_path({str(EXAMPLE)!r})['forecast'].plan()",
    ],
)
def test_importing_starts_nothing(code: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code + AFTERWARDS], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
