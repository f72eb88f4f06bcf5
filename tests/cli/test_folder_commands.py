"""Commands for a folder of pipelines, while a scheduler runs it and while none does."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mainspring.folder.state.records import STATE_FILE, ScheduleState, ScheduleStatus
from mainspring.folder.state.state_files import write_state
from tests.cli.terminal import Terminal, run_by

LEFT_AT = datetime(2026, 1, 26, 14, tzinfo=UTC)


@pytest.mark.parametrize("command", ["list", "status nightly"])
def test_it_is_said_that_no_scheduler_runs_and_since_when_files_are_as_they_are(command: str, tmp_path: Path) -> None:
    """A killed scheduler leaves what was running as running."""
    directory = tmp_path / "nightly"
    directory.mkdir()
    (directory / "pipeline.yaml").write_text("tasks: [{id: only, run: echo}]\n")
    state = ScheduleState(schedule_id="nightly-123456", pipeline_id="nightly", status=ScheduleStatus.RUNNING)
    assert write_state(directory, state)
    os.utime(directory / STATE_FILE, (LEFT_AT.timestamp(),) * 2)
    words = ("scheduler", *command.split(), "--dir", str(tmp_path), "--utc")

    stopped, for_a_program = Terminal().call(*words), Terminal().call(*words, "-o", "json")
    with run_by("http://127.0.0.1:1", tmp_path):
        running = Terminal().call(*words)

    assert f"no scheduler runs {tmp_path}: this is how it was left at 2026-01-26 14:00:00" in stopped.stderr
    assert (for_a_program.stderr, running.stderr) == ("", "")
    assert "running" in stopped.stdout


def test_an_invoker_that_is_none_is_a_mistake_of_the_command(tmp_path: Path) -> None:
    result = Terminal().call("up", tmp_path, "--invoker", "blah")

    assert result.exit_code == 2
    assert "'blah' is not an invoker" in result.stderr
