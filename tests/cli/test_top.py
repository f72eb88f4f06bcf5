"""`mainspring top`: key bindings, layout at 80 by 24, and restoring the terminal."""

from __future__ import annotations

import signal
from datetime import timedelta

import msgspec
import pytest
from rich.console import Console

from mainspring.cli.commands.top.board import Board, run_rate
from mainspring.cli.commands.top.keyboard import keys_in
from mainspring.cli.commands.top.screen import KeyAction, Screen
from mainspring.protocol.clock import SystemClock
from tests.cli.terminal import Terminal, job
from tests.cli.test_terminal import HIDE_CURSOR, SHOW_CURSOR, screen

NEW_SCREEN, OLD_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"


@pytest.fixture
def board(terminal: Terminal) -> Board:
    """A snapshot with a failed run of `topmost`, among others."""
    terminal.finished(job("topmost", "id: only, run: 'false', retries: 0"))
    return msgspec.json.decode(terminal.out("top", "-o", "json"), type=Board)


def drawn(shown: Screen, board: Board, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the lines of a screen of 80 by 24."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    console = Console(width=80, height=24, force_terminal=False)
    with console.capture() as capture:
        console.print(shown.draw(board, board.at, is_stale=False))
    return capture.get().splitlines()


def test_the_screen_fits_a_small_terminal(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    crowded = msgspec.structs.replace(
        board, active=board.latest * 40, waiting=board.tasks * 40, failed=board.failed * 40
    )
    shown = Screen()
    for key in ("", "tab", "tab", "tab", "tab", "?"):
        shown.press(key, crowded)
        lines = drawn(shown, crowded, monkeypatch)

        assert len(lines) == 24
        assert all(len(line) <= 80 for line in lines)
        assert lines[0].startswith("http://127.0.0.1:")
        assert "workers 1/" in lines[1]
        assert lines[-1].startswith("tab lists")


def test_keys_switch_views_filter_and_open(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Screen()
    for key in ":runs":
        shown.press(key, board)
    shown.press("enter", board)
    assert shown.view == "runs"

    for key in "/TOPMOST":
        shown.press(key, board)
    shown.press("enter", board)
    assert any("topmost@1" in line for line in drawn(shown, board, monkeypatch))
    newest = next(run for run in board.latest if run.job == "topmost")
    assert shown.press("enter", board) == KeyAction("show", newest.id)
    assert shown.press("l", board) == KeyAction("logs", newest.id)

    shown.open("a page", ["one\x1b[31m", "two"])
    assert "one [31m" in "\n".join(drawn(shown, board, monkeypatch))
    assert shown.press("q", board) is None
    assert shown.press("q", board) == KeyAction("quit")


def test_the_cursor_stays_within_the_rows(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Screen()
    for key in ("up", "page up", *["page down"] * 500):
        shown.press(key, board)
    drawn(shown, board, monkeypatch)

    assert shown.cursor < len(board.active) + len(board.waiting) + len(board.failed)
    shown.filter = "no such row"
    assert shown.press("enter", board) is None


def test_runs_per_minute_count_the_last_minute(board: Board) -> None:
    now = SystemClock().wall()
    runs = [
        msgspec.structs.replace(board.latest[0], created_at=now - timedelta(seconds=seconds)) for seconds in (1, 30, 90)
    ]

    assert run_rate(runs, now) == 2
    assert run_rate([], now) == 0


def test_keys_are_decoded_to_names() -> None:
    assert keys_in(b"\x1b[A\x1bOBq\t\r\x7f\x1b\xc3\xa9\x1b[99;9X") == [
        "up", "down", "q", "tab", "enter", "backspace", "escape", "é",
    ]  # fmt: skip


@pytest.mark.parametrize(("number", "exit_code"), [(None, 0), (signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=str)
def test_the_terminal_is_restored(terminal: Terminal, number: signal.Signals | None, exit_code: int) -> None:
    with screen("top") as watching:
        watching.read_until(b"tab lists")
        if number is None:
            watching.type(b"q")
        else:
            watching.process.send_signal(number)

        assert watching.read_to_end() == exit_code
        assert watching.seen.count(NEW_SCREEN) == watching.seen.count(OLD_SCREEN) == 1
        assert watching.seen.count(HIDE_CURSOR) == watching.seen.count(SHOW_CURSOR)
        assert b"Traceback" not in watching.seen
