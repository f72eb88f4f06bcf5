"""Readings that are kept: the same as if the files were read again, and never more than a help."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring.errors import InvalidFile
from mainspring.folder.readings import READINGS_FILE, Readings
from mainspring.folder.records import OWN_DIRECTORY
from mainspring.sdk.pipelines import Pipeline
from tests.folder.house import text


def read(readings: Readings, content: str, zone: str = "UTC") -> Pipeline:
    """Read a file of the directory `a`."""
    return readings.read(content, "a/pipeline.yaml", id="a", directory="/srv/a", zone=zone)


def test_what_was_kept_is_what_was_read(tmp_path: Path) -> None:
    first = Readings(tmp_path)
    pipeline = read(first, text())
    first.save([pipeline])

    second = Readings(tmp_path)
    second.load()
    kept = read(second, text())

    assert kept == pipeline
    assert read(second, text()) is kept


def test_another_text_or_zone_is_read_anew(tmp_path: Path) -> None:
    readings = Readings(tmp_path)
    local = text().replace("  timezone: UTC\n", "")

    assert read(readings, local, "UTC").schedules != read(readings, local, "Asia/Tokyo").schedules
    assert read(readings, text(cron="1 2 3 4 *")).schedules != read(readings, text()).schedules


def test_a_wrong_file_is_refused_each_time(tmp_path: Path) -> None:
    readings = Readings(tmp_path)

    for _ in range(2):
        with pytest.raises(InvalidFile):
            read(readings, "name: [")


@pytest.mark.parametrize("content", [b"", b"\x00\x01", b"\x81\xa1a\xa1b"])
def test_a_spoilt_file_of_readings_means_only_that_files_are_read_again(tmp_path: Path, content: bytes) -> None:
    (tmp_path / OWN_DIRECTORY).mkdir()
    (tmp_path / OWN_DIRECTORY / READINGS_FILE).write_bytes(content)
    readings = Readings(tmp_path)

    readings.load()

    assert read(readings, text()).id == "a"
