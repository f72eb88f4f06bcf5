"""Logs as files: segments, overlaps, limits, sweeps."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.api.logs.log_files import LogFiles
from mainspring.protocol.wire import Log

ATTEMPT = "att_018f3c2e9b07-5be0d1c27f3a9946"
DAY = "2024-05-03"
TEXT = bytes(range(64, 128))


def names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*.*"))


def test_pieces_in_order_make_one_complete_file(tmp_path: Path) -> None:
    files = LogFiles(tmp_path)
    assert files.append(Log(ATTEMPT, 0, b"one ")) == 4
    assert names(tmp_path) == [f"{DAY}/{ATTEMPT}.0.log"]
    assert not files.extent(ATTEMPT).complete
    assert files.append(Log(ATTEMPT, 4, b"two", last=True)) == 7
    assert names(tmp_path) == [f"{DAY}/{ATTEMPT}.0.end"]
    assert files.extent(ATTEMPT).complete
    assert files.read(ATTEMPT, 0, 100) == b"one two"
    assert files.read(ATTEMPT, 2, 3) == b"e t"


def test_a_gap_starts_a_new_segment(tmp_path: Path) -> None:
    files = LogFiles(tmp_path)
    files.append(Log(ATTEMPT, 0, b"begin"))
    files.append(Log(ATTEMPT, 50, b"end", last=True))
    assert names(tmp_path) == [f"{DAY}/{ATTEMPT}.0.log", f"{DAY}/{ATTEMPT}.50.end"]
    assert files.read(ATTEMPT, 5, 100) == b""
    assert files.first_after(ATTEMPT, 5) == 50
    assert (files.extent(ATTEMPT).size, files.extent(ATTEMPT).complete) == (53, True)


def test_another_process_finds_the_files(tmp_path: Path) -> None:
    LogFiles(tmp_path).append(Log(ATTEMPT, 0, b"one "))
    files = LogFiles(tmp_path)
    assert files.append(Log(ATTEMPT, 2, b"e two", last=True)) == 7
    again = LogFiles(tmp_path)
    assert again.read(ATTEMPT, 0, 100) == b"one two"
    assert again.extent(ATTEMPT).complete


@given(st.lists(st.tuples(st.integers(0, 63), st.integers(0, 64)), min_size=1, max_size=12))
def test_any_order_and_overlap_of_pieces_gives_the_right_bytes(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[int, int]]
) -> None:
    files = LogFiles(tmp_path_factory.mktemp("logs"))
    known: set[int] = set()
    for start, length in parts:
        data = TEXT[start : start + length]
        assert files.append(Log(ATTEMPT, start, data)) >= start + len(data)
        known |= set(range(start, start + len(data)))
    for place in range(64):
        assert files.read(ATTEMPT, place, 1) == (TEXT[place : place + 1] if place in known else b"")


def test_a_log_cut_at_its_limit_is_complete(tmp_path: Path) -> None:
    files = LogFiles(tmp_path, max_log_bytes=10)
    assert files.append(Log(ATTEMPT, 0, b"123456")) == 6
    assert files.append(Log(ATTEMPT, 6, b"789abc")) == 12
    assert files.append(Log(ATTEMPT, 12, b"def")) == 15
    assert files.append(Log(ATTEMPT, 15, b"", last=True)) == 15
    assert files.read(ATTEMPT, 0, 100) == b"123456789a"
    assert files.extent(ATTEMPT).complete


def test_an_attempt_that_printed_nothing_is_complete_without_a_file(tmp_path: Path) -> None:
    files = LogFiles(tmp_path)
    assert files.append(Log(ATTEMPT, 0, b"", last=True)) == 0
    assert files.extent(ATTEMPT).complete
    assert names(tmp_path) == []


def test_an_end_without_a_beginning_is_recorded(tmp_path: Path) -> None:
    files = LogFiles(tmp_path)
    files.append(Log(ATTEMPT, 9, b"", last=True))
    assert (files.extent(ATTEMPT).size, files.extent(ATTEMPT).complete) == (9, True)


@pytest.mark.parametrize("name", ["", "att_1", "../../etc/passwd", f"{ATTEMPT}/../x", f"{ATTEMPT}\n", f"../{ATTEMPT}"])
def test_only_attempt_ids_become_paths(tmp_path: Path, name: str) -> None:
    files = LogFiles(tmp_path / "logs")
    with pytest.raises(ValueError, match="is not an attempt id"):
        files.append(Log(name, 0, b"x"))
    assert names(tmp_path) == []


def attempt_of(day: date) -> str:
    milliseconds = (day - date(1970, 1, 1)) // timedelta(milliseconds=1)
    return f"att_{milliseconds:012x}-0000000000000001"


def test_expired_days_are_deleted_and_then_the_oldest_until_the_rest_fits(tmp_path: Path) -> None:
    today = date(2026, 11, 16)
    files = LogFiles(tmp_path, max_directory_bytes=25, retention=timedelta(days=7))
    for age in (9, 7, 3, 0):
        files.append(Log(attempt_of(today - timedelta(days=age)), 0, b"0123456789"))
    assert files.sweep(today) == 20
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2026-11-13", "2026-11-16"]
    assert files.read(attempt_of(today - timedelta(days=7)), 0, 9) == b""


def test_a_recently_written_log_is_kept_however_old_its_attempt(tmp_path: Path) -> None:
    """An attempt of last month that still logs, and one of the same day that ended long ago."""
    today = date(2026, 11, 16)
    files = LogFiles(tmp_path, retention=timedelta(days=7))
    going_on = attempt_of(today - timedelta(days=30))
    over = f"{going_on[:-1]}2"
    for attempt, age in ((going_on, 6), (over, 9)):
        files.append(Log(attempt, 0, b"0123456789"))
        (path,) = tmp_path.glob(f"*/{attempt}*")
        written = datetime(2026, 11, 16, 12, tzinfo=UTC) - timedelta(days=age)
        os.utime(path, (written.timestamp(), written.timestamp()))

    assert files.sweep(today) == 10
    assert files.read(going_on, 0, 9) == b"012345678"
    assert files.read(over, 0, 9) == b""


def test_today_is_never_deleted(tmp_path: Path) -> None:
    today = date(2026, 11, 16)
    files = LogFiles(tmp_path, max_directory_bytes=5)
    files.append(Log(attempt_of(today), 0, b"0123456789"))
    assert files.sweep(today) == 10


def test_two_servers_can_share_a_directory(tmp_path: Path) -> None:
    one, two = LogFiles(tmp_path), LogFiles(tmp_path)
    other = ATTEMPT[:-1] + "0"
    one.append(Log(other, 0, b"x"))
    two.append(Log(other, 0, b"x"))
    one.append(Log(ATTEMPT, 0, b"0123"))
    two.append(Log(ATTEMPT, 0, b"0123456"))
    one.append(Log(ATTEMPT, 4, b"456789"))
    two.append(Log(ATTEMPT, 10, b"", last=True))
    assert LogFiles(tmp_path).read(ATTEMPT, 0, 100) == b"0123456789"
    assert LogFiles(tmp_path).extent(ATTEMPT).size == 10


def test_a_deleted_file_is_missing(tmp_path: Path) -> None:
    files = LogFiles(tmp_path)
    files.append(Log(ATTEMPT, 0, b"0123"))
    (tmp_path / DAY / f"{ATTEMPT}.0.log").unlink()
    assert files.read(ATTEMPT, 0, 100) == b""
    assert files.append(Log(ATTEMPT, 0, b"0123")) == 4
    assert files.read(ATTEMPT, 0, 100) == b"0123"
