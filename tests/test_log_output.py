"""Log output of a process: to stderr, without values of variables, and without changing another program's
configuration."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

_FAIL = """
import logging, sys
import structlog
from mainspring.telemetry.log_output import configure_logging

configure_logging(sys.argv[1], "info")

def connect(password):
    raise OSError("no route")

for log in (structlog.get_logger(), logging.getLogger("library")):
    try:
        connect("-".join(("hunter", "2")))
    except OSError:
        log.exception("store.lost")
"""

_INSIDE = """
import asyncio, sys, tempfile
from pathlib import Path
from mainspring import PipelineScheduler

async def main():
    with tempfile.TemporaryDirectory() as folder:
        scheduler = PipelineScheduler(folder, port=0)
        scheduler.on("scheduler:status", lambda event: 1 / 0)
        await scheduler.start()
        await scheduler.stop()

asyncio.run(main())
"""

_THEIRS = """
import logging
import structlog

logging.basicConfig(format="theirs %(message)s")
"""


def outcome(program: str, *words: str) -> tuple[str, str]:
    """Return what a program prints, on both streams."""
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout, done.stderr


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_has_no_values_of_variables(form: str) -> None:
    said, logged = outcome(_FAIL, form)

    assert said == ""
    assert logged.count("OSError: no route") == 2
    assert logged.count("in connect") == 2
    assert "hunter-2" not in logged
    if form == "json":
        assert [json.loads(line)["event"] for line in logged.splitlines()] == ["store.lost", "store.lost"]


def test_an_embedded_scheduler_logs_warnings_to_stderr() -> None:
    said, logged = outcome(_INSIDE)

    assert said == ""
    assert "listener.failed" in logged
    assert "standalone.ready" not in logged


def test_an_embedded_scheduler_keeps_the_log_configuration_of_its_program() -> None:
    said, logged = outcome(
        f"{_THEIRS}\nstructlog.configure(processors=[lambda *event: 'theirs ' + event[2]['event']]){_INSIDE}"
    )
    _, kept = outcome(f"{_THEIRS}{_INSIDE}\nlogging.getLogger().warning('is kept')")

    assert "theirs listener.failed" in said
    assert "listener.failed" not in logged
    assert kept.endswith("theirs is kept\n")
