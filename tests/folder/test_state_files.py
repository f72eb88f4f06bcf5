"""`.schedule-state.json`: round trips, and invalid files (FLD-3)."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from mainspring.folder.state.records import (
    ARCHIVE_FILE,
    STATE_FILE,
    RunRecord,
    ScheduleState,
    ScheduleStats,
    ScheduleStatus,
)
from mainspring.folder.state.state_files import (
    MAX_FILE_BYTES,
    StateFault,
    archive_state,
    drop_state,
    read_state,
    restore_archived,
    write_state,
)

AT = datetime(2026, 1, 26, 14, tzinfo=UTC)

OF_002 = """{
  "version": 1,
  "scheduleId": "daily-report-a1b2c3",
  "pipelineId": "daily-report",
  "status": "idle",
  "enabled": true,
  "lastRun": {
    "startedAt": "2026-01-26T14:00:00.000Z",
    "completedAt": "2026-01-26T14:02:35.000Z",
    "success": true,
    "resultFile": ".results/2026-01-26T14-00-00.json",
    "itemsProcessed": 42,
    "error": null
  },
  "nextRun": "2026-01-27T14:00:00.000Z",
  "stats": {
    "totalRuns": 156,
    "successfulRuns": 152,
    "failedRuns": 4,
    "lastFailure": "2026-01-20T14:00:00.000Z"
  },
  "history": [
    {
      "startedAt": "2026-01-26T14:00:00.000Z",
      "completedAt": "2026-01-26T14:02:35.000Z",
      "success": true,
      "duration": 155000
    }
  ]
}
"""


def a_state(**fields: object) -> ScheduleState:
    """A state like that of seed 002, with some fields replaced."""
    return msgspec.structs.replace(msgspec.json.decode(OF_002, type=ScheduleState), **fields)


def names(directory: Path) -> list[str]:
    """The names in a directory."""
    return sorted(path.name for path in directory.iterdir())


def test_the_example_of_the_format_round_trips_exactly(tmp_path: Path) -> None:
    """Every field, its order, its times."""
    (tmp_path / STATE_FILE).write_text(OF_002)
    state = read_state(tmp_path)
    assert isinstance(state, ScheduleState)
    assert state.last_run == RunRecord(
        started_at=AT,
        completed_at=AT + timedelta(seconds=155),
        success=True,
        items_processed=42,
        result_file=".results/2026-01-26T14-00-00.json",
        error=None,
    )
    assert state.stats == ScheduleStats(
        total_runs=156, successful_runs=152, failed_runs=4, last_failure=AT - timedelta(days=6)
    )

    (tmp_path / STATE_FILE).unlink()
    assert write_state(tmp_path, state)
    assert (tmp_path / STATE_FILE).read_text() == OF_002
    assert names(tmp_path) == [STATE_FILE]


def test_times_are_written_in_utc_with_milliseconds(tmp_path: Path) -> None:
    """From any time zone."""
    there = datetime(2026, 1, 26, 16, 0, 0, 123_456, tzinfo=timezone(timedelta(hours=2)))
    write_state(tmp_path, a_state(next_run=there))
    assert json.loads((tmp_path / STATE_FILE).read_text())["nextRun"] == "2026-01-26T14:00:00.123Z"


def test_it_is_written_only_if_it_changed(tmp_path: Path) -> None:
    """An unchanged file is not touched."""
    assert write_state(tmp_path, a_state())
    inode = (tmp_path / STATE_FILE).stat().st_ino
    assert not write_state(tmp_path, a_state())
    assert (tmp_path / STATE_FILE).stat().st_ino == inode
    assert write_state(tmp_path, a_state(status=ScheduleStatus.PAUSED))
    assert read_state(tmp_path) == a_state(status=ScheduleStatus.PAUSED)


def test_unknown_fields_are_ignored(tmp_path: Path) -> None:
    """A newer version of the format may add fields."""
    (tmp_path / STATE_FILE).write_text(OF_002.replace('"version": 1', '"version": 1, "color": {"deep": [1]}'))
    assert read_state(tmp_path) == a_state()


def test_a_missing_state_file_is_none(tmp_path: Path) -> None:
    """Even without a directory."""
    assert read_state(tmp_path) is None
    assert read_state(tmp_path / "gone") is None


def _link(path: Path) -> None:
    path.with_name("target").write_text(OF_002)
    path.symlink_to("target")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.write_text(""), "can't be parsed"),
        (lambda path: path.write_text(OF_002[:200]), "can't be parsed"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00"), "can't be parsed"),
        (lambda path: path.write_text("[]"), "can't be parsed"),
        (lambda path: path.write_text("[" * 100_000), "can't be parsed"),
        (lambda path: path.write_text(OF_002.replace("true", '"yes"')), "can't be parsed: Expected `bool`"),
        (lambda path: path.write_text(OF_002.replace("156", "-1")), "can't be parsed: Expected `int` >= 0"),
        (
            lambda path: path.write_text(OF_002.replace(".000Z", "")),
            "can't be parsed: Expected `datetime` with a timezone",
        ),
        (lambda path: path.write_text(OF_002.replace('"idle"', '"asleep"')), "can't be parsed: Invalid enum value"),
        (lambda path: path.write_text(OF_002.replace('"version": 1', '"version": 2')), "has version 2"),
        (lambda path: path.write_text(OF_002.replace("-a1b2c3", "/../x")), "has an invalid scheduleId"),
        (lambda path: path.write_bytes(b" " * (MAX_FILE_BYTES + 1)), "is larger than 4 MiB"),
        (_link, "is a symbolic link"),
        (lambda path: path.mkdir(), "is not a regular file"),
        (os.mkfifo, "is not a regular file"),
    ],
)
def test_an_invalid_state_file_is_a_fault(tmp_path: Path, make: Callable[[Path], None], why: str) -> None:
    """With the reason."""
    make(tmp_path / STATE_FILE)
    fault = read_state(tmp_path)
    assert isinstance(fault, StateFault)
    assert fault.file == STATE_FILE
    assert fault.why.startswith(why)


def test_a_symlink_in_its_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """Also one in place of the temporary file."""
    (tmp_path / "target").write_text("precious")
    (tmp_path / STATE_FILE).symlink_to("target")
    (tmp_path / f"{STATE_FILE}.new").symlink_to("target")
    assert write_state(tmp_path, a_state())
    assert read_state(tmp_path) == a_state()
    assert (tmp_path / "target").read_text() == "precious"
    assert names(tmp_path) == [STATE_FILE, "target"]


def test_a_failed_write_is_logged_and_raises_nothing(tmp_path: Path) -> None:
    """The directory is missing or blocked; the other files are written."""
    (tmp_path / "a" / STATE_FILE).mkdir(parents=True)
    (tmp_path / "b").mkdir()
    with capture_logs() as logs:
        written = [write_state(tmp_path / name, a_state()) for name in ("gone", "a", "b")]
    assert written == [False, False, True]
    assert [entry["event"] for entry in logs] == ["state.not_written", "state.not_written"]
    assert names(tmp_path / "a") == [STATE_FILE]


@contextmanager
def no_room() -> Iterator[None]:
    """Limit the file size to 100 bytes: a write is truncated, as on a full disk.

    pytest must not write anything inside the block: its output may be a file too.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_an_interrupted_write_keeps_the_old_file(tmp_path: Path) -> None:
    """And no temporary file."""
    write_state(tmp_path, a_state())
    with capture_logs() as logs, no_room():
        assert not write_state(tmp_path, a_state(enabled=False))
    assert [(entry["event"], entry["error"]) for entry in logs] == [("state.not_written", "File too large")]
    assert read_state(tmp_path) == a_state()
    assert names(tmp_path) == [STATE_FILE]


def test_an_archived_state_is_restored(tmp_path: Path) -> None:
    """The schedule was removed from the file and added again."""
    write_state(tmp_path, a_state())
    assert archive_state(tmp_path)
    assert names(tmp_path) == [ARCHIVE_FILE]
    assert not archive_state(tmp_path)

    assert restore_archived(tmp_path) == a_state()
    assert names(tmp_path) == [STATE_FILE]


def test_an_existing_state_has_precedence_over_the_archive(tmp_path: Path) -> None:
    """Neither is lost."""
    write_state(tmp_path, a_state(enabled=False))
    archive_state(tmp_path)
    write_state(tmp_path, a_state())
    assert restore_archived(tmp_path) == a_state()
    assert names(tmp_path) == [ARCHIVE_FILE, STATE_FILE]


def test_restoring_or_dropping_nothing_is_allowed(tmp_path: Path) -> None:
    """Even without a directory."""
    for directory in (tmp_path, tmp_path / "gone"):
        assert restore_archived(directory) is None
        drop_state(directory)
        assert not archive_state(directory)


def test_dropping_deletes_all_our_files(tmp_path: Path) -> None:
    """Other files stay."""
    write_state(tmp_path, a_state())
    archive_state(tmp_path)
    write_state(tmp_path, a_state())
    (tmp_path / "input.csv").write_text("")
    drop_state(tmp_path)
    assert names(tmp_path) == ["input.csv"]
