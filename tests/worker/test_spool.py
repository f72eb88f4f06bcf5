"""The worker's spool: appended records survive a torn end of the file (I-50, I-53)."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mainspring.protocol.errors import Refused
from mainspring.protocol.wire import Outcome, Result
from mainspring.worker.agent.instructions import Mark, Record
from mainspring.worker.agent.spool import SMALL_BYTES, Spool
from mainspring.worker.agent.state_machine import MAX_UNKNOWN_RESULTS


def records(*attempts: str, output: str = "1") -> list[Record]:
    """Return the records of attempts, up to their results."""
    return [
        record
        for attempt in attempts
        for record in (
            Record(Mark.RECEIVED, attempt),
            Record(Mark.STARTED, attempt, 7, 1.5),
            Record(Mark.ENDED, attempt, result=Result(attempt, Outcome.SUCCEEDED, output)),
        )
    ]


def reopened(directory: Path) -> list[Record]:
    """Return the records that the next agent finds."""
    spool = Spool(directory)
    try:
        return spool.found()
    finally:
        spool.close()


def test_appended_records_are_found_in_order(tmp_path: Path) -> None:
    """All of it, once."""
    spool = Spool(tmp_path)
    spool.append(records("a"))
    spool.append(records("b", "c"))
    spool.close()

    assert reopened(tmp_path) == records("a", "b", "c")
    assert reopened(tmp_path) == records("a", "b", "c")


@pytest.mark.parametrize("cut", [1, 5, 9, 30])
def test_a_torn_last_block_is_truncated_and_saved(tmp_path: Path, cut: int) -> None:
    """The machine crashed during the write: its records were never promised."""
    spool = Spool(tmp_path)
    spool.append(records("a"))
    whole = (tmp_path / "spool").stat().st_size
    spool.append(records("b"))
    spool.close()
    data = (tmp_path / "spool").read_bytes()
    (tmp_path / "spool").write_bytes(data[: whole + cut])

    spool = Spool(tmp_path)
    assert spool.found() == records("a")
    assert (tmp_path / "spool.cut").read_bytes() == data[whole : whole + cut]
    spool.append(records("c"))
    spool.close()
    assert reopened(tmp_path) == records("a", "c")


def test_a_corrupt_block_is_ignored(tmp_path: Path) -> None:
    """Its checksum does not match."""
    spool = Spool(tmp_path)
    spool.append(records("a"))
    spool.append(records("b"))
    spool.close()
    data = bytearray((tmp_path / "spool").read_bytes())
    data[-3] ^= 0xFF
    (tmp_path / "spool").write_bytes(data)

    assert reopened(tmp_path) == records("a")


def test_a_mostly_forgotten_spool_is_compacted(tmp_path: Path) -> None:
    """Current attempts with the latest checkpoint are kept, and unknown results."""
    spool = Spool(tmp_path)
    large = '"' + "x" * 10_000 + '"'
    spool.append(records("held", "unknown"))
    spool.append([Record(Mark.SAVED, "held", document="1"), Record(Mark.SAVED, "held", document="2")])
    spool.append([Record(Mark.UNKNOWN, "unknown")])
    for number in range(SMALL_BYTES // 10_000 + 10):
        spool.append(records(f"a{number}", output=large))
        spool.append([Record(Mark.FORGOTTEN, f"a{number}")])
    spool.close()

    assert (tmp_path / "spool").stat().st_size < SMALL_BYTES
    found = reopened(tmp_path)
    assert [one for one in found if one.attempt == "held"] == [
        *records("held")[:3], Record(Mark.SAVED, "held", document="2"),
    ]  # fmt: skip
    assert [one.mark for one in found if one.attempt == "unknown"][-1] is Mark.UNKNOWN


def test_a_crash_during_compaction_loses_nothing(tmp_path: Path) -> None:
    """The old file is replaced only when the new one is complete."""
    spool = Spool(tmp_path)
    spool.append(records("a"))
    spool.close()
    (tmp_path / "spool.new").write_bytes(b"half of it")

    assert reopened(tmp_path) == records("a")
    assert not (tmp_path / "spool.new").exists()


def test_a_failed_write_leaves_the_spool_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F36: a partial block is removed, and records can be appended later."""
    spool = Spool(tmp_path)
    spool.append(records("a"))

    def refuse(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("os.fdatasync", refuse)
        with pytest.raises(OSError) as failed:  # noqa: PT011 - its code is checked
            spool.append(records("b"))
    assert failed.value.errno == errno.ENOSPC
    spool.append(records("c"))
    spool.close()

    assert reopened(tmp_path) == records("a", "c")


def test_a_directory_is_locked_by_one_process(tmp_path: Path) -> None:
    """The error names the owner; the lock ends with its process."""
    spool = Spool(tmp_path)
    with pytest.raises(Refused, match=rf"process {os.getpid()}\b"):
        Spool(tmp_path)
    spool.close()

    Spool(tmp_path).close()


def test_a_spool_is_full_until_half_of_it_is_free(tmp_path: Path) -> None:
    """I-53: full at 80%."""
    large = '"' + "x" * 1_000 + '"'
    spool = Spool(tmp_path, limit_bytes=10_000)
    seen = []
    for group in (
        records(*(f"a{n}" for n in range(7)), output=large),
        records("a7", output=large),
        [Record(Mark.FORGOTTEN, "a0"), Record(Mark.FORGOTTEN, "a1")],
        [Record(Mark.FORGOTTEN, f"a{n}") for n in range(2, 5)],
    ):
        spool.append(group)
        seen.append(spool.spool_full)
    spool.close()

    assert seen == [False, True, True, False]


def test_unknown_results_are_bounded(tmp_path: Path) -> None:
    """The oldest are dropped on compaction."""
    spool = Spool(tmp_path)
    names = [f"a{n}" for n in range(MAX_UNKNOWN_RESULTS + 3)]
    spool.append(records(*names, output="1" * 1_000))
    spool.append([Record(Mark.UNKNOWN, name) for name in names])
    spool.append(records(*(f"b{n}" for n in range(300)), output="1" * 10_000))
    spool.append([Record(Mark.FORGOTTEN, f"b{n}") for n in range(300)])
    spool.close()

    unknown_results = [one.attempt for one in reopened(tmp_path) if one.mark is Mark.UNKNOWN]
    assert unknown_results == names[3:]
