"""Tasks on a real Ray cluster of one node (WRK-3). Its start exceeds the time limit of ordinary tests.

Ray has its own environment, `.venv-ray`, which `make soak` creates from `ray-requirements.lock`: it has many
dependencies, and none of ours.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from mainspring.protocol.wire import Outcome
from mainspring.worker.supervisor.supervisor_wire import AttemptEnded, EndAttempt, ProgressReported
from tests.worker.supervisor.harness import SupervisorHarness

RAY = Path(__file__).parents[3] / ".venv-ray" / "bin" / "ray"
NODE = "127.0.0.2"
"""A loopback address other than 127.0.0.1, which Ray would replace by a network address."""
START_SECONDS = 120


def free_ports(count: int) -> list[int]:
    """Return ports that are free at the moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    """Start a cluster with two CPUs; yield the address of its dashboard."""
    assert RAY.exists(), "Ray is not installed: `make soak` does that"
    dashboard, client, agent = free_ports(3)
    # Ray's socket paths must be short, and test directories are not.
    short = tempfile.mkdtemp(prefix="ray-")
    process = await asyncio.create_subprocess_exec(
        RAY, "start", "--head", "--block", f"--node-ip-address={NODE}", "--port=0", "--num-cpus=2",
        "--include-dashboard=true", "--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}",
        f"--ray-client-server-port={client}", f"--dashboard-agent-listen-port={agent}", "--min-worker-port=0",
        "--max-worker-port=0", "--object-store-memory=80000000", f"--temp-dir={short}", "--disable-usage-stats",
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}, start_new_session=True,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    url = f"http://127.0.0.1:{dashboard}"
    try:
        async with asyncio.timeout(START_SECONDS), httpx2.AsyncClient() as client_:
            while True:
                with suppress(httpx2.TransportError):
                    if (await client_.get(f"{url}/api/version")).is_success:
                        break
                await asyncio.sleep(0.2)  # tidy: sleeps because Ray has no event for that
        yield url
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        shutil.rmtree(short)


def sh(script: str, *words: str, **more: object) -> dict[str, object]:
    """A task that runs a script as a job of Ray."""
    return {"ray": {"run": ["sh", "-c", script, *words]}, **more}


async def known(address: str) -> dict[str, str]:
    """Return the jobs that Ray knows, with their states."""
    async with httpx2.AsyncClient() as client:
        return {one["submission_id"]: one["status"] for one in (await client.get(f"{address}/api/jobs/")).json()}


@pytest.mark.processes
@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_tasks_run_fail_stop_and_are_cleared_on_a_real_cluster(harness: SupervisorHarness, address: str) -> None:
    await harness.start(ray=address)
    script = "echo \"hi $0 $LEVEL\"; echo '::mainspring-progress:: 40 on'; echo '::mainspring-output:: {\"rows\": 3}'"
    done = await harness.ends(
        sh(script, "{{ params.day }}", env={"LEVEL": "low"}), params='{"day": "it\'s; $(date)"}', memory_bytes=2**20
    )
    assert (done.outcome, done.output) == (Outcome.SUCCEEDED, '{"rows":3}')
    assert "hi it's; $(date) low\n" in harness.log(done.attempt)
    assert ProgressReported(done.attempt, 40.0, "on") in harness.received

    failed = await harness.ends(sh("echo no; exit 3"))
    error = json.loads(failed.error or "")
    assert (failed.outcome, error["exit_code"]) == (Outcome.FAILED, 3)
    # Ray's own process writes to the same log, before and after the task's output.
    assert "no" in error["last_lines"].splitlines()

    unready = await harness.ends({"ray": {"run": ["true"], "runtime_env": {"working_dir": "/no/such.zip"}}})
    assert unready.outcome is Outcome.FAILED

    (stopped,) = harness.launch(sh("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done"))
    await harness.wait_for_log(stopped, "up\n")
    harness.say(EndAttempt(stopped, 20.0))
    assert (await harness.receives(AttemptEnded, stopped)).outcome is Outcome.STOPPED
    assert "bye" in harness.log(stopped).splitlines()

    (lost,) = harness.launch(sh("echo up; sleep 1000", grace_seconds=0))
    await harness.wait_for_log(lost, "up\n")
    os.kill(harness.pid, signal.SIGKILL)
    await harness.wait_for_exit()
    assert (await known(address))[lost] == "RUNNING"
    await harness.start(ray=address)
    after = await harness.ends(sh("true"))
    assert after.outcome is Outcome.SUCCEEDED
    assert (await known(address))[lost] == "STOPPED"
