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
from tests.worker.agent.conftest import AgentHarness
from tests.worker.agent.fake_server import TIMEOUT_SECONDS, FakeServer

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


async def start(harness: AgentHarness, fake_server: FakeServer, *options: str) -> asyncio.subprocess.Process:
    """Start a worker on the harness's directory."""
    given = options_of(harness, fake_server, *options)
    return await asyncio.create_subprocess_exec(*COMMAND, *given, stderr=asyncio.subprocess.DEVNULL)


async def start_waiting(harness: AgentHarness, fake_server: FakeServer, *options: str) -> asyncio.subprocess.Process:
    """Start a worker that waits for a signal to begin."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WAITING, "worker", *options_of(harness, fake_server, *options),
        stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    assert await process.stdout.readline() == b"loaded\n"
    return process


def options_of(harness: AgentHarness, fake_server: FakeServer, *options: str) -> tuple[str, ...]:
    """Return the options of a worker on the harness's directory."""
    return ("--server", fake_server.url, "--state-dir", str(harness.state_dir), "--name", "w1", "--as-root", *options)


async def ended(process: asyncio.subprocess.Process) -> int:
    """Wait for the exit code."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        return await process.wait()


async def test_a_worker_that_is_killed_and_started_again_loses_nothing(
    fake_server: FakeServer, harness: AgentHarness, tmp_path: Path
) -> None:
    """F02: the task survives, and runs once."""
    work = f'{{"shell": "echo x >> {tmp_path}/runs; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"}}'
    process = await start(harness, fake_server)
    await fake_server.wait_for(Register)
    await fake_server.assign("lease", ("a", work))
    await fake_server.wait_for(Started)
    options = ("--ready-file", str(tmp_path / "ready"), "--label", "disk=ssd", "--cpu", "500m")
    next_one = await start_waiting(harness, fake_server, *options)
    process.kill()
    await ended(process)

    process = next_one
    assert process.stdin is not None
    process.stdin.write(b"\n")
    hello = await fake_server.wait_for(Register, times=2)
    assert (hello.holds, hello.labels["disk"], hello.offer.cpu_millis) == (("a",), "ssd", 500)
    (tmp_path / "go").touch()
    assert (await fake_server.result("a")).outcome is Outcome.SUCCEEDED
    assert (tmp_path / "runs").read_text() == "x\n"
    assert (tmp_path / "ready").exists()

    process.send_signal(signal.SIGTERM)
    assert await ended(process) == 0
    assert fake_server.received[-1] == Goodbye()


async def test_an_invalid_token_has_its_own_exit_code(fake_server: FakeServer, harness: AgentHarness) -> None:
    """3: unauthorized."""
    fake_server.refuses = HTTPStatus.UNAUTHORIZED

    assert await ended(await start(harness, fake_server)) == 3


async def test_handlers_are_served_by_name(fake_server: FakeServer, harness: AgentHarness, tmp_path: Path) -> None:
    """As labels that tasks require."""
    (tmp_path / "jobs.py").write_text(HANDLERS)
    file = os.path.relpath(tmp_path / "jobs.py")  # noqa: ASYNC240 - a relative path, as typed by users
    process = await start(harness, fake_server, "--handlers", file, "--children", "1")
    assert "handler/greet" in (await fake_server.wait_for(Register)).labels
    await fake_server.assign("lease", ("a", '{"handler": "greet", "args": {"name": "ann"}}'))

    result = await fake_server.result("a")
    assert (result.outcome, result.output) == (Outcome.SUCCEEDED, '"hello ann"')
    process.send_signal(signal.SIGINT)
    assert await ended(process) == 0


async def test_handlers_that_cannot_be_imported_are_refused(
    fake_server: FakeServer, harness: AgentHarness, tmp_path: Path
) -> None:
    """Before the worker registers."""
    (tmp_path / "jobs.py").write_text("import no_such_module")

    assert await ended(await start(harness, fake_server, "--handlers", str(tmp_path / "jobs.py"))) == 4
    assert fake_server.received == []
