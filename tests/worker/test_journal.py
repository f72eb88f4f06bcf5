"""The worker's spool: appended records survive a torn end of the file (I-50, I-53)."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring.protocol.errors import Refused
from mainspring.protocol.wire import Outcome, Result
from mainspring.worker.agent.instructions import Mark, Record
from mainspring.worker.agent.spool import SMALL_BYTES, Journal
from mainspring.worker.agent.state_machine import MOST_ASIDE


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
    journal = Journal(directory)
    try:
        return journal.found()
    finally:
        journal.close()


def test_appended_records_are_found_in_order(tmp_path: Path) -> None:
    """All of it, once."""
    journal = Journal(tmp_path)
    journal.append(records("a"))
    journal.append(records("b", "c"))
    journal.close()

    assert reopened(tmp_path) == records("a", "b", "c")
    assert reopened(tmp_path) == records("a", "b", "c")


@pytest.mark.parametrize("cut", [1, 5, 9, 30])
def test_a_torn_last_block_is_truncated_and_saved(tmp_path: Path, cut: int) -> None:
    """The machine crashed during the write: its records were never promised."""
    journal = Journal(tmp_path)
    journal.append(records("a"))
    whole = (tmp_path / "spool").stat().st_size
    journal.append(records("b"))
    journal.close()
    data = (tmp_path / "spool").read_bytes()
    (tmp_path / "spool").write_bytes(data[: whole + cut])

    journal = Journal(tmp_path)
    assert journal.found() == records("a")
    assert (tmp_path / "spool.cut").read_bytes() == data[whole : whole + cut]
    journal.append(records("c"))
    journal.close()
    assert reopened(tmp_path) == records("a", "c")


def test_a_corrupt_block_is_ignored(tmp_path: Path) -> None:
    """Its checksum does not match."""
    journal = Journal(tmp_path)
    journal.append(records("a"))
    journal.append(records("b"))
    journal.close()
    data = bytearray((tmp_path / "spool").read_bytes())
    data[-3] ^= 0xFF
    (tmp_path / "spool").write_bytes(data)

    assert reopened(tmp_path) == records("a")


def test_a_mostly_forgotten_spool_is_compacted(tmp_path: Path) -> None:
    """Current attempts with the latest checkpoint are kept, and unknown results."""
    journal = Journal(tmp_path)
    large = '"' + "x" * 10_000 + '"'
    journal.append(records("held", "aside"))
    journal.append([Record(Mark.SAVED, "held", document="1"), Record(Mark.SAVED, "held", document="2")])
    journal.append([Record(Mark.ASIDE, "aside")])
    for number in range(SMALL_BYTES // 10_000 + 10):
        journal.append(records(f"a{number}", output=large))
        journal.append([Record(Mark.FORGOTTEN, f"a{number}")])
    journal.close()

    assert (tmp_path / "spool").stat().st_size < SMALL_BYTES
    found = reopened(tmp_path)
    assert [one for one in found if one.attempt == "held"] == [
        *records("held")[:3], Record(Mark.SAVED, "held", document="2"),
    ]  # fmt: skip
    assert [one.mark for one in found if one.attempt == "aside"][-1] is Mark.ASIDE


def test_a_crash_during_compaction_loses_nothing(tmp_path: Path) -> None:
    """The old file is replaced only when the new one is complete."""
    journal = Journal(tmp_path)
    journal.append(records("a"))
    journal.close()
    (tmp_path / "spool.new").write_bytes(b"half of it")

    assert reopened(tmp_path) == records("a")
    assert not (tmp_path / "spool.new").exists()


def test_a_failed_write_leaves_the_spool_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F36: a partial block is removed, and records can be appended later."""
    journal = Journal(tmp_path)
    journal.append(records("a"))

    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fdatasync", refuse)
        with pytest.raises(OSError, match="No space"):
            journal.append(records("b"))
    journal.append(records("c"))
    journal.close()

    assert reopened(tmp_path) == records("a", "c")


def test_a_directory_is_locked_by_one_process(tmp_path: Path) -> None:
    """The error names the owner; the lock ends with its process."""
    journal = Journal(tmp_path)
    with pytest.raises(Refused, match=r"in use by another worker \(process \d+\)"):
        Journal(tmp_path)
    journal.close()

    Journal(tmp_path).close()


def test_a_spool_is_full_until_half_of_it_is_free(tmp_path: Path) -> None:
    """I-53: full at 80%."""
    large = '"' + "x" * 1_000 + '"'
    journal = Journal(tmp_path, limit_bytes=10_000)
    seen = []
    for group in (
        records(*(f"a{n}" for n in range(7)), output=large),
        records("a7", output=large),
        [Record(Mark.FORGOTTEN, "a0"), Record(Mark.FORGOTTEN, "a1")],
        [Record(Mark.FORGOTTEN, f"a{n}") for n in range(2, 5)],
    ):
        journal.append(group)
        seen.append(journal.crowded)
    journal.close()

    assert seen == [False, True, True, False]


def test_unknown_results_are_bounded(tmp_path: Path) -> None:
    """The oldest are dropped on compaction."""
    journal = Journal(tmp_path)
    names = [f"a{n}" for n in range(MOST_ASIDE + 3)]
    journal.append(records(*names, output="1" * 1_000))
    journal.append([Record(Mark.ASIDE, name) for name in names])
    journal.append(records(*(f"b{n}" for n in range(300)), output="1" * 10_000))
    journal.append([Record(Mark.FORGOTTEN, f"b{n}") for n in range(300)])
    journal.close()

    aside = [one.attempt for one in reopened(tmp_path) if one.mark is Mark.ASIDE]
    assert aside == names[3:]
