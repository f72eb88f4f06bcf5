"""The job of the README, unchanged: in process, on a server with a worker, and with `serve()`."""

from __future__ import annotations

import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mainspring.dsl.job import Job
from mainspring.protocol.errors import TaskError
from mainspring.task_context.task_context import loading
from tests.e2e.cluster import Process, Server, ServerCluster, until

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "weather.py"
HOME = """
from mainspring import Retry, job, task

@task
def count(n: int, label: str = "x") -> dict:
    return {"rows": list(range(n)), "many": n > 2, "label": label}

@task
def double(x: int) -> int:
    return 2 * x

@task(retries=Retry(1, backoff="0.1s"))
def fails(x: int) -> None:
    raise KeyError(f"price of {x}")

@job
def sums(n: int = 3, label: str = "{{ label }}"):
    seen = count(n, label)
    return {"doubled": double.map(seen.rows), "alarm": double.named("alarm").if_(seen.many)(n), "seen": seen["label"]}

@job
def broken():
    return fails(7)

sums.serve()
"""


@pytest.fixture
def server(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server, set in the environment."""
    monkeypatch.setenv("MAINSPRING_SERVER_URL", server.address)
    monkeypatch.setenv("MAINSPRING_WORKER__AS_ROOT", "true")
    return server


@pytest.fixture
def readme_job(tmp_path: Path) -> Path:
    """The Python of the README, as a file."""
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len([line for line in block.splitlines() if line]) == 12
    file = tmp_path / "forecast.py"
    file.write_text(block, encoding="utf-8")
    return file


def _end(worker: Process) -> None:
    """Stop a worker cleanly."""
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def _jobs_of(file: Path) -> dict[str, Job[..., Any]]:
    return {name: one for name, one in runpy.run_path(str(file)).items() if isinstance(one, Job)}


def test_the_job_of_the_readme_runs_in_process(readme_job: Path) -> None:
    """Without a server."""
    assert _jobs_of(readme_job)["forecast"].run().value == "Paris 5, Oslo 4"


def test_it_runs_on_a_server_with_a_worker_that_serves_it(
    cluster: ServerCluster, server: Server, readme_job: Path
) -> None:
    """And once per idempotency key."""
    forecast = _jobs_of(readme_job)["forecast"]
    worker = cluster.worker(server, extra=["--handlers", str(readme_job)])
    run = forecast.trigger(cities=["Rome", "Oslo"], idempotency_key="2026-11-15")
    assert run.result(timeout_seconds=60) == "Rome 4, Oslo 4"
    assert forecast.trigger(cities=["Rome", "Oslo"], idempotency_key="2026-11-15").run_id == run.run_id
    with server.client() as client:
        assert (run.state(), client.job("forecast").version) == ("SUCCEEDED", 1)
    _end(worker)


def test_it_serves_itself_and_its_schedule(server: Server, readme_job: Path, tmp_path: Path) -> None:
    """With `python forecast.py` alone."""
    with (tmp_path / "serve.log").open("wb") as log:
        serving = subprocess.Popen([sys.executable, str(readme_job)], stdout=log, stderr=log, cwd=tmp_path)
    try:
        with server.client() as client:
            schedules = until(lambda: list(client.schedules()), "the schedule is deployed")
        assert [(one.name, one.job) for one in schedules] == [("forecast", "forecast")]
        assert _jobs_of(readme_job)["forecast"].trigger().result(timeout_seconds=60) == "Paris 5, Oslo 4"
        serving.send_signal(signal.SIGINT)
        assert serving.wait(timeout=60) == 0, (tmp_path / "serve.log").read_text()
    finally:
        if serving.poll() is None:
            serving.terminate()
            serving.wait()


def test_the_example_runs_in_process() -> None:
    """As a new user would start it."""
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "Paris 20°, Oslo 15°\n"), done.stderr


def test_a_file_with_all_features_is_served_unchanged(cluster: ServerCluster, server: Server, tmp_path: Path) -> None:
    """Types, conditions and failures are the same on a server as in process; `.serve()` in a file does no harm."""
    file = tmp_path / "jobs.py"
    file.write_text(HOME)
    worker = cluster.worker(server, extra=["--handlers", str(file)])
    with loading():
        here = _jobs_of(file)
    for n, alarm in ((3, 6), (1, None)):
        expected = {"doubled": [2 * x for x in range(n)], "alarm": alarm, "seen": "{{ label }}"}
        assert here["sums"].trigger(n=n).result(timeout_seconds=60) == expected == here["sums"].run(n).value
    failed = here["broken"].trigger().wait(timeout_seconds=60)
    assert (failed.state, failed.task("fails").attempts) == ("FAILED", 2)
    with pytest.raises(TaskError, match="fails is FAILED: KeyError: 'price of 7'"):
        _ = failed.value
    _end(worker)
