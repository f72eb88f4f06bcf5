"""Secrets: resolved on the worker, in the task's environment, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mainspring.protocol.wire import Outcome
from tests.worker.supervisor.harness import SupervisorHarness

pytestmark = pytest.mark.processes

VALUE = "s3cr3t-värde"
CODE = """
import os

def use():
    print("it is", os.environ["PASSWORD"])
    return {"it": os.environ["PASSWORD"], os.environ["PASSWORD"]: 1}

def fail():
    raise ValueError("wrong: " + os.environ["PASSWORD"])

def after():
    return sorted(os.environ)
"""


async def share(harness: SupervisorHarness) -> None:
    """Connect to this module's shared supervisor."""
    await harness.share(variables={"DB_PASSWORD": VALUE, "MAINSPRING_KEY": "key"}, code=CODE)


@pytest.mark.parametrize("source", ["env", "file", "command"])
async def test_a_secret_reaches_the_command_and_is_masked_everywhere(
    harness: SupervisorHarness, tmp_path: Path, source: str
) -> None:
    (tmp_path / "password").write_text(f"{VALUE}\n")
    path = tmp_path / "password"
    await share(harness)
    reference = {"env": "env:DB_PASSWORD", "file": f"file:{path}", "command": f"command:cat '{path}'"}[source]
    end = await harness.ends(
        {
            "shell": 'printf "%s" "${PASSWORD%r*}"; sleep 0.05; echo "r${PASSWORD##*r}";'
            ' echo "{\\"p\\": \\"$PASSWORD\\"}" > $MAINSPRING_OUTPUT; tr "\\0" " " < /proc/$$/cmdline',
            "secrets": {"PASSWORD": reference},
        }
    )
    assert harness.log(end.attempt).startswith("••••\n")
    assert json.loads(end.output or "") == {"p": "••••"}
    _assert_in_no_file(harness.state_dir)


async def test_a_secret_is_masked_in_the_error(harness: SupervisorHarness) -> None:
    await share(harness)
    secrets = {"PASSWORD": "env:DB_PASSWORD"}
    command = await harness.ends({"shell": 'echo "bad $PASSWORD"; exit 1', "secrets": secrets})
    function = await harness.ends({"python": "work:fail", "secrets": secrets})
    assert json.loads(command.error or "")["last_lines"] == "bad ••••\n"
    assert json.loads(function.error or "")["message"] == "wrong: ••••"
    assert VALUE not in str(function.error)


async def test_a_function_has_its_secrets_during_its_own_call_only(harness: SupervisorHarness) -> None:
    await share(harness)
    used = await harness.ends({"python": "work:use", "secrets": {"PASSWORD": "env:DB_PASSWORD"}})
    after = await harness.ends({"python": "work:after"})
    assert json.loads(used.output or "") == {"it": "••••", "••••": 1}
    assert harness.log(used.attempt) == "it is ••••\n"
    assert {"PASSWORD", "DB_PASSWORD"}.isdisjoint(json.loads(after.output or ""))
    _assert_in_no_file(harness.state_dir)


async def test_an_unresolvable_secret_fails_the_attempt(harness: SupervisorHarness) -> None:
    await share(harness)
    for reference in (
        "env:NOT_THERE",
        "env:MAINSPRING_KEY",
        "file:/no/such",
        "file:/",
        "command:false",
        "command:nope",
    ):
        for work in ({"run": ["true"]}, {"python": "work:use"}):
            end = await harness.ends({**work, "secrets": {"PASSWORD": reference}})
            error = json.loads(end.error or "")
            assert end.outcome is Outcome.FAILED
            assert (error["type"], error["class"]) == ("Secret", "permanent")
            assert reference in error["message"]


def _assert_in_no_file(directory: Path) -> None:
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert [path for path in files if VALUE.encode() in path.read_bytes()] == []
