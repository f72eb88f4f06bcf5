"""`mainspring worker` as a process: killed, restarted, drained (WRK-1, WRK-9, WRK-10)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from http import HTTPStatus
from pathlib import Path

import pytest

from mainspring.protocol.wire import Goodbye, Outcome, Register, Started
from tests.worker.agent.conftest import Shop
from tests.worker.agent.desk import PATIENCE_SECONDS, Desk

pytestmark = pytest.mark.processes

COMMAND = (sys.executable, "-c", "from mainspring.cli.main import main; main()", "worker")
WAITING = """
import sys
import mainspring.worker.agent.launch
from mainspring.cli.main import main
print("loaded", flush=True)
if sys.stdin.readline():
    main()
"""
"""The same command, which imports its code and then waits: a supervisor without an agent does not wait for slow
imports."""
HANDLERS = """
from mainspring import task

@task(name="greet")
def greet(name: str = "you") -> str:
    return f"hello {name}"
"""


async def start(shop: Shop, desk: Desk, *options: str) -> asyncio.subprocess.Process:
    """Start a worker on the harness's directory."""
    words = words_of(shop, desk, *options)
    return await asyncio.create_subprocess_exec(*COMMAND, *words, stderr=asyncio.subprocess.DEVNULL)


async def start_waiting(shop: Shop, desk: Desk, *options: str) -> asyncio.subprocess.Process:
    """Start a worker that waits for a signal to begin."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WAITING, "worker", *words_of(shop, desk, *options),
        stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    assert await process.stdout.readline() == b"loaded\n"
    return process


def words_of(shop: Shop, desk: Desk, *options: str) -> tuple[str, ...]:
    """Return the options of a worker on the harness's directory."""
    return ("--server", desk.url, "--state-dir", str(shop.state_dir), "--name", "w1", "--as-root", *options)


async def ended(process: asyncio.subprocess.Process) -> int:
    """Wait for the exit code."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await process.wait()


async def test_a_worker_that_is_killed_and_started_again_loses_nothing(desk: Desk, shop: Shop, tmp_path: Path) -> None:
    """F02: the task survives, and runs once."""
    work = f'{{"shell": "echo x >> {tmp_path}/runs; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"}}'
    process = await start(shop, desk)
    await desk.wait_for(Register)
    await desk.assign("lease", ("a", work))
    await desk.wait_for(Started)
    options = ("--ready-file", str(tmp_path / "ready"), "--label", "disk=ssd", "--cpu", "500m")
    next_one = await start_waiting(shop, desk, *options)
    process.kill()
    await ended(process)

    process = next_one
    assert process.stdin is not None
    process.stdin.write(b"\n")
    hello = await desk.wait_for(Register, times=2)
    assert (hello.holds, hello.labels["disk"], hello.offer.cpu_millis) == (("a",), "ssd", 500)
    (tmp_path / "go").touch()
    assert (await desk.result("a")).outcome is Outcome.SUCCEEDED
    assert (tmp_path / "runs").read_text() == "x\n"
    assert (tmp_path / "ready").exists()

    process.send_signal(signal.SIGTERM)
    assert await ended(process) == 0
    assert desk.heard[-1] == Goodbye()


async def test_an_invalid_token_has_its_own_exit_code(desk: Desk, shop: Shop) -> None:
    """3: unauthorized."""
    desk.refuses = HTTPStatus.UNAUTHORIZED

    assert await ended(await start(shop, desk)) == 3


async def test_handlers_are_served_by_name(desk: Desk, shop: Shop, tmp_path: Path) -> None:
    """As labels that tasks require."""
    (tmp_path / "jobs.py").write_text(HANDLERS)
    file = os.path.relpath(tmp_path / "jobs.py")  # noqa: ASYNC240 - a relative path, as typed by users
    process = await start(shop, desk, "--handlers", file, "--children", "1")
    assert "handler/greet" in (await desk.wait_for(Register)).labels
    await desk.assign("lease", ("a", '{"handler": "greet", "args": {"name": "ann"}}'))

    result = await desk.result("a")
    assert (result.outcome, result.output) == (Outcome.SUCCEEDED, '"hello ann"')
    process.send_signal(signal.SIGINT)
    assert await ended(process) == 0


async def test_handlers_that_cannot_be_imported_are_refused(desk: Desk, shop: Shop, tmp_path: Path) -> None:
    """Before the worker registers."""
    (tmp_path / "jobs.py").write_text("import no_such_module")

    assert await ended(await start(shop, desk, "--handlers", str(tmp_path / "jobs.py"))) == 4
    assert desk.heard == []
