"""The index of a folder: saving, loading, and corrupt files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mainspring.folder.state.index import INDEX_FILE, Index, IndexEntry
from mainspring.folder.state.records import OWN_DIRECTORY, RunRecord, ScheduleStats

AT = datetime(2026, 1, 26, 14, 0, 0, 123_456, tzinfo=UTC)

KNOWN = IndexEntry(
    schedule_id="daily-a1b2c3",
    pipeline_id="daily",
    path="Daily",
    digest="abc",
    names=("daily-a1b2c3",),
    stats=ScheduleStats(total_runs=3, successful_runs=2, failed_runs=1, last_failure=AT),
    history=(RunRecord(started_at=AT, completed_at=AT, success=True, duration=0),),
    counted=("run_1", "run_2"),
)


def test_a_saved_index_is_loaded(tmp_path: Path) -> None:
    """By its scheduleId."""
    index = Index.load(tmp_path)
    assert index.entries == {}
    other = IndexEntry(schedule_id="x-000000", pipeline_id="x", path=".")
    index.entries = {known.schedule_id: known for known in (other, KNOWN)}
    index.saved_at = AT
    assert index.save()

    found = Index.load(tmp_path)
    assert found.entries == {KNOWN.schedule_id: KNOWN, other.schedule_id: other}
    assert found.saved_at == AT
    assert [path.name for path in (tmp_path / OWN_DIRECTORY).iterdir()] == [INDEX_FILE]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"version": 2}', '{"version": 1, "schedules": [{"schedule_id": 7}]}', "\udcff", "[" * 100_000],
    ids=["empty", "cut", "list", "version", "type", "binary", "deep"],
)
def test_a_corrupt_index_is_renamed_and_recreated(tmp_path: Path, text: str) -> None:
    """With a warning; the corrupt file is kept for inspection."""
    path = tmp_path / OWN_DIRECTORY / INDEX_FILE
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with capture_logs() as logs:
        index = Index.load(tmp_path)
    assert [(entry["event"], entry["kept_as"]) for entry in logs] == [("index.corrupt", "folder.json.corrupt")]
    assert (path.with_name("folder.json.corrupt")).read_text(encoding="utf-8", errors="surrogateescape") == text

    index.entries[KNOWN.schedule_id] = KNOWN
    assert index.save()
    assert Index.load(tmp_path).entries == {KNOWN.schedule_id: KNOWN}


def test_a_symlink_in_its_place_is_not_followed(tmp_path: Path) -> None:
    """Neither for reading nor for writing."""
    (tmp_path / OWN_DIRECTORY).mkdir()
    (tmp_path / "target").write_text("precious")
    (tmp_path / OWN_DIRECTORY / INDEX_FILE).symlink_to(tmp_path / "target")
    index = Index.load(tmp_path)
    assert index.entries == {}
    assert index.save()
    assert (tmp_path / "target").read_text() == "precious"


def test_a_failed_write_is_logged(tmp_path: Path) -> None:
    """Everything else continues."""
    (tmp_path / OWN_DIRECTORY).write_text("in the way")
    with capture_logs() as logs:
        assert not Index.load(tmp_path).save()
    assert [entry["event"] for entry in logs] == ["index.not_written"]
