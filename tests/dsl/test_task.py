"""`@task`: the function stays callable, and keeps the options for workers and jobs."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import msgspec
import pytest

import mainspring
from mainspring import task
from mainspring.core.admission.validate_submission import Limits, decode_job
from mainspring.protocol.errors import Refused


@task
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@task(name="send-report", retries=2, timeout="10m", cpu=0.5, memory="512Mi", labels={"zone": "eu"})
async def report(rows: list[int]) -> int:
    """Count them."""
    return len(rows)


def test_a_task_is_still_callable() -> None:
    assert add(1) == 2
    assert add.fn(1, b=2) == 3
    assert asyncio.run(report([1, 2])) == 2
    assert (add.__name__, add.__doc__) == ("add", "Add two numbers.")


def test_a_task_keeps_its_options() -> None:
    assert (add.name, report.name) == ("add", "send-report")
    assert report.fields["timeout_seconds"] == 600.0


def test_a_job_accepts_as_task() -> None:
    each = add.as_task(name="each", needs=["add"], for_each="outputs.add", a="{{ item }}")
    body = {"name": "j", "tasks": [add.as_task(a=1), report.as_task(needs=["add"], rows=[1]), each]}
    spec = decode_job(msgspec.json.encode(body), Limits())
    assert [one.name for one in spec.tasks] == ["add", "send-report", "each"]
    assert [one.for_each for one in spec.tasks] == [None, None, "outputs.add"]
    assert spec.tasks[0].timeout_seconds is None
    assert spec.tasks[1].labels == {"zone": "eu"}
    assert (spec.tasks[1].max_attempts, spec.tasks[1].timeout_seconds) == (3, 600.0)
    assert spec.tasks[1].resources.cpu_millis == 500


def test_an_unknown_failure_class_is_refused() -> None:
    assert mainspring.TaskError("gone").failure == "permanent"
    with pytest.raises(ValueError, match="rate_limited"):
        mainspring.TaskError("slow down", failure="rate-limited")


def test_an_invalid_task_name_is_refused() -> None:
    with pytest.raises(Refused):
        task(name="not a name")(lambda: None)


@pytest.mark.processes
def test_importing_the_package_loads_nothing_else() -> None:
    code = "import mainspring, sys; sys.exit('mainspring.client' in sys.modules or 'asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert mainspring.task is task
    with pytest.raises(AttributeError):
        _ = mainspring.nothing
