"""Result files: one per run, never overwritten by another run, limited in number."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from mainspring.folder.state.records import RESULTS, RunRecord
from mainspring.folder.state.result_files import MAX_RESULT_FILES, delete_old, result_of, write_result

T0 = datetime(2026, 1, 26, 14, 0, tzinfo=UTC)


def write(directory: Path, run: str, at: datetime = T0) -> str | None:
    """Write the result of a run with this start."""
    record = RunRecord(started_at=at, completed_at=at, success=True)
    return write_result(directory, result_of(run, "a", "SUCCEEDED", record, {"load": {"rows": 3}}))


def test_a_result_file_is_named_by_the_start_of_its_run(tmp_path: Path) -> None:
    assert write(tmp_path, "run_1") == ".results/2026-01-26T14-00-00.json"

    said = msgspec.json.decode((tmp_path / RESULTS / "2026-01-26T14-00-00.json").read_bytes())
    assert said == {
        "run_id": "run_1",
        "pipeline": "a",
        "state": "SUCCEEDED",
        "started_at": "2026-01-26T14:00:00.000Z",
        "completed_at": "2026-01-26T14:00:00.000Z",
        "outputs": {"load": {"rows": 3}},
    }


def test_two_runs_in_one_second_have_two_files_and_one_run_has_one(tmp_path: Path) -> None:
    first, second = write(tmp_path, "run_1"), write(tmp_path, "run_2")

    assert first != second
    assert write(tmp_path, "run_1") == first
    assert write(tmp_path, "run_2") == second


def test_an_unrelated_file_with_that_name_is_kept(tmp_path: Path) -> None:
    (tmp_path / RESULTS).mkdir()
    other = tmp_path / RESULTS / "2026-01-26T14-00-00.json"
    other.write_text("mine")

    assert write(tmp_path, "run_1") == ".results/2026-01-26T14-00-00-2.json"
    assert other.read_text() == "mine"


def test_only_the_latest_are_kept_and_nothing_else_is_touched(tmp_path: Path) -> None:
    for number in range(MAX_RESULT_FILES + 3):
        write(tmp_path, f"run_{number}", T0 + timedelta(minutes=number))
    (tmp_path / RESULTS / "notes.txt").write_text("mine")

    delete_old(tmp_path)

    left = sorted(path.name for path in (tmp_path / RESULTS).iterdir())
    assert len(left) == MAX_RESULT_FILES + 1
    assert left[0] == "2026-01-26T14-03-00.json"
    assert left[-1] == "notes.txt"


def test_a_read_only_directory_does_not_stop_the_run(tmp_path: Path) -> None:
    (tmp_path / RESULTS).write_text("a file in the way")

    assert write(tmp_path, "run_1") is None
    delete_old(tmp_path)
