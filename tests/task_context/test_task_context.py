"""The task context in the process of a command. (In a function: the tests of the supervisor.)"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mainspring.protocol.errors import Refused
from mainspring.protocol.wire import Assignment, Outcome
from mainspring.task_context import task_context as contexts
from mainspring.worker.executors.attempt_files import AttemptFiles
from mainspring.worker.supervisor.supervisor_wire import CheckpointSaved, ProgressReported
from tests.worker.supervisor.harness import SupervisorHarness


@pytest.fixture
def no_context() -> None:
    """As in a new process."""
    contexts.set_current(None)


@pytest.mark.processes
async def test_a_command_can_read_its_context(tmp_path: Path) -> None:
    """End to end with a real supervisor: checkpoint and progress."""
    program = """
import json
from mainspring import current
context = current()
context.progress(50, "half")
context.save_checkpoint([context.params, context.outputs, context.checkpoint, context.failed_upstreams])
print(json.dumps([context.run_id, context.task_name, context.attempt, context.tenant, context.token]))
print(context.deadline.tzinfo is not None)
print(json.dumps([context.item, context.partition, context.total, context.window.isoformat(), context.memory_bytes]))
"""
    harness = SupervisorHarness(tmp_path / "state", tmp_path / "code")
    await harness.start()
    try:
        end = await harness.ends(
            {"run": [sys.executable, "-c", program]},
            params='{"a": 1}', inputs={"up": "[2]"}, failed_upstreams=("gone",), token="tok", timeout_seconds=5.0,
            item='"Oslo"', partition=1, total=3, window="2030-01-02T03:04:05Z", memory_bytes=7,
        )  # fmt: skip
        assert end.outcome is Outcome.SUCCEEDED, end
        first, second, third = harness.log(end.attempt).splitlines()
        assert json.loads(first) == ["run_1", "load", 1, "acme", "tok"]
        assert second == "True"
        assert json.loads(third) == ["Oslo", 1, 3, "2030-01-02T03:04:05+00:00", 7]
        assert await harness.receives(ProgressReported) == ProgressReported(end.attempt, 50.0, "half")
        assert json.loads((await harness.receives(CheckpointSaved)).document) == [{"a": 1}, {"up": [2]}, None, ["gone"]]
    finally:
        await harness.end()


def test_the_checkpoint_of_the_previous_attempt_is_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_context: None
) -> None:
    assignment = Assignment("att_1", "task_1", "run_1", "acme", "load", 2, "{}", "{}", {}, checkpoint='{"page": 3}')
    files = AttemptFiles(tmp_path, assignment, None)
    files.make()
    for name, value in files.environment().items():
        monkeypatch.setenv(name, value)
    context = contexts.current()
    assert (context.attempt, context.checkpoint, context.deadline) == (2, {"page": 3}, None)

    with pytest.raises(Refused):
        context.save_checkpoint("x" * 300_000)
    assert (context.item, context.partition, context.total, context.window) == (None, None, None, None)

    until = datetime(2100, 1, 2, tzinfo=UTC)
    with pytest.raises(Refused):
        context.extend(float("nan"))
    context.extend(600)
    assert (files.new_extension_request(), files.new_extension_request()) == (600.0, None)
    files.prolong(until)
    assert context.deadline == until

    context.save_checkpoint({"page": 4})
    assert files.new_checkpoint() == '{"page":4}'
    assert files.new_checkpoint() is None
    contexts.set_current(None)


def test_outside_of_a_task_there_is_no_context(monkeypatch: pytest.MonkeyPatch, no_context: None) -> None:
    monkeypatch.delenv("MAINSPRING_CONTEXT", raising=False)
    with pytest.raises(Refused):
        contexts.current()
