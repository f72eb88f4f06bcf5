"""Shipping logs: in pieces, within a window, resumed after a lost session, removed from disk (WRK-8)."""

from __future__ import annotations

from pathlib import Path

from mainspring.protocol.wire import Log, LogStored
from mainspring.worker.logs.shipping import PIECE_BYTES, RESEND_SECONDS, WINDOW_BYTES, Shipping
from mainspring.worker.supervisor.supervisor_settings import LOGS, log_path


def printed(state: Path, attempt: str, data: bytes) -> None:
    """Append output of an attempt."""
    path = log_path(state, attempt)
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as file:
        file.write(data)


def removed(shipping: Shipping, state: Path) -> bool:
    """Remove finished logs; whether none is left."""
    shipping.remove()
    return not list((state / LOGS).iterdir())


def test_a_log_is_sent_while_it_grows_and_marked_complete(tmp_path: Path) -> None:
    """Each byte once."""
    shipping = Shipping(tmp_path)
    shipping.follow("a")
    assert shipping.next_pieces(0.0) == []
    printed(tmp_path, "a", b"one")
    assert shipping.next_pieces(0.0) == [Log("a", 0, b"one")]
    assert shipping.next_pieces(0.0) == []
    printed(tmp_path, "a", b"two")
    shipping.end("a", 6)
    assert shipping.next_pieces(0.0) == [Log("a", 3, b"two", last=True)]
    assert shipping.next_pieces(0.0) == []


def test_an_end_without_new_bytes_is_still_sent(tmp_path: Path) -> None:
    """Readers wait for it."""
    shipping = Shipping(tmp_path)
    shipping.follow("a")
    printed(tmp_path, "a", b"one")
    shipping.next_pieces(0.0)
    shipping.keep(LogStored("a", 3))
    shipping.end("a", 3)

    assert shipping.next_pieces(0.0) == [Log("a", 3, b"", last=True)]


def test_a_log_is_removed_when_kept_and_its_result_acknowledged(tmp_path: Path) -> None:
    """Both are required."""
    shipping = Shipping(tmp_path)
    printed(tmp_path, "a", b"one")
    printed(tmp_path, "b", b"two")
    shipping.end("a", 3)
    shipping.end("b", 3)
    shipping.next_pieces(0.0)
    shipping.keep(LogStored("a", 3))
    shipping.acknowledge(["b"])
    assert not removed(shipping, tmp_path)
    assert not shipping.is_idle()

    shipping.keep(LogStored("b", 3))
    shipping.acknowledge(["a"])
    assert shipping.is_idle()
    assert removed(shipping, tmp_path)


def test_an_attempt_without_output_sends_nothing(tmp_path: Path) -> None:
    """And leaves no file."""
    (tmp_path / LOGS).mkdir()
    shipping = Shipping(tmp_path)
    shipping.follow("a")
    shipping.end("a", 0)
    assert shipping.next_pieces(0.0) == []
    assert shipping.is_idle()
    shipping.acknowledge(["a"])
    assert not shipping.has_removable()
    assert removed(shipping, tmp_path)


def test_an_empty_log_file_is_removed_by_the_next_agent(tmp_path: Path) -> None:
    """The disk was full when the attempt wrote its output."""
    printed(tmp_path, "a", b"")
    shipping = Shipping(tmp_path)
    shipping.restore([], [])

    assert shipping.is_idle()
    assert removed(shipping, tmp_path)


def test_at_most_a_window_is_in_flight(tmp_path: Path) -> None:
    """Results must not be blocked."""
    shipping = Shipping(tmp_path)
    printed(tmp_path, "a", b"x" * 3 * WINDOW_BYTES)
    shipping.end("a", 3 * WINDOW_BYTES)

    first = shipping.next_pieces(0.0)
    assert sum(len(piece.data) for piece in first) == WINDOW_BYTES
    assert max(len(piece.data) for piece in first) <= PIECE_BYTES
    assert shipping.next_pieces(0.0) == []
    shipping.keep(LogStored("a", PIECE_BYTES))
    assert [piece.offset for piece in shipping.next_pieces(0.0)] == [WINDOW_BYTES]


def test_a_new_session_resumes_at_the_kept_offset(tmp_path: Path) -> None:
    """Unacknowledged pieces are sent again."""
    shipping = Shipping(tmp_path)
    printed(tmp_path, "a", b"x" * 2 * PIECE_BYTES)
    shipping.end("a", 2 * PIECE_BYTES)
    shipping.next_pieces(0.0)
    shipping.keep(LogStored("a", PIECE_BYTES))
    shipping.begin_session()

    assert [(piece.offset, piece.last) for piece in shipping.next_pieces(0.0)] == [(PIECE_BYTES, True)]


def test_logs_of_an_earlier_agent_are_sent_or_removed(tmp_path: Path) -> None:
    """Of running, ended and forgotten attempts."""
    for attempt in ("forgotten", "over", "running"):
        printed(tmp_path, attempt, b"one")
    printed(tmp_path, "empty", b"")
    shipping = Shipping(tmp_path)
    shipping.restore(["running"], ["over"])

    pieces = {piece.attempt: piece.last for piece in shipping.next_pieces(0.0)}
    assert pieces == {"running": False, "over": True, "forgotten": True}
    for attempt in pieces:
        shipping.keep(LogStored(attempt, 3))
    shipping.remove()
    assert sorted(path.name for path in (tmp_path / LOGS).iterdir()) == ["over", "running"]


def test_beyond_the_limit_the_oldest_logs_are_dropped(tmp_path: Path) -> None:
    """The disk use is bounded, whatever the server does."""
    shipping = Shipping(tmp_path, limit_bytes=100)
    for attempt in ("a", "b", "c"):
        printed(tmp_path, attempt, b"x" * 45)
        shipping.end(attempt, 45)

    assert [piece.attempt for piece in shipping.next_pieces(0.0)] == ["b", "c"]
    assert not log_path(tmp_path, "a").exists()
    shipping.acknowledge(["a"])
    shipping.remove()
    assert [path.name for path in sorted((tmp_path / LOGS).iterdir())] == ["b", "c"]


def test_unacknowledged_pieces_are_resent(tmp_path: Path) -> None:
    """The server's disk was full for a moment."""
    shipping = Shipping(tmp_path)
    printed(tmp_path, "a", b"one")
    shipping.end("a", 3)
    assert len(shipping.next_pieces(0.0)) == 1
    assert shipping.next_pieces(RESEND_SECONDS) == []

    assert shipping.next_pieces(RESEND_SECONDS + 1.0) == [Log("a", 0, b"one", last=True)]
    shipping.keep(LogStored("a", 3))
    assert shipping.next_pieces(10 * RESEND_SECONDS) == []
