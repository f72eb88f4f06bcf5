"""Commands on a folder of pipelines, with and without a running scheduler."""

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
def test_a_stopped_scheduler_is_reported_with_the_age_of_the_state(command: str, tmp_path: Path) -> None:
    """A killed scheduler leaves state files that say `running`."""
    directory = tmp_path / "nightly"
    directory.mkdir()
    (directory / "pipeline.yaml").write_text("tasks: [{id: only, run: echo}]\n")
    state = ScheduleState(schedule_id="nightly-123456", pipeline_id="nightly", status=ScheduleStatus.RUNNING)
    assert write_state(directory, state)
    os.utime(directory / STATE_FILE, (LEFT_AT.timestamp(),) * 2)
    words = ("scheduler", *command.split(), "--dir", str(tmp_path), "--utc")

    stopped, as_json = Terminal().call(*words), Terminal().call(*words, "-o", "json")
    with run_by("http://127.0.0.1:1", tmp_path):
        running = Terminal().call(*words)

    assert f"no scheduler runs {tmp_path}" in stopped.stderr
    assert "2026-01-26 14:00:00" in stopped.stderr
    assert (as_json.stderr, running.stderr) == ("", "")
    assert "running" in stopped.stdout


def test_an_invalid_invoker_is_a_usage_error(tmp_path: Path) -> None:
    result = Terminal().call("up", tmp_path, "--invoker", "blah")

    assert result.exit_code == 2
    assert "'blah'" in result.stderr
