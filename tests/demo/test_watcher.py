"""What people see of the demo: plain text in a pipe, colours and the width of a terminal."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

from mainspring.cli.commands.local.demo import Watcher
from mainspring.cli.options import Printing
from mainspring.demo.play import Opening
from mainspring.demo.story import Line

LINE = Line(glyph="↻", subject="weather", text="Oslo: try 1 of 3 failed", hint="ms logs 'run_1/fetch[Oslo]'")
HERE = "http://127.0.0.1:8484"


def opening(address: str) -> Opening:
    """A demo that has begun."""
    return Opening(
        address=address, folder="/tmp/demo", kept=False, seconds=1.25, workers=6, zones=3, tenants=3, lasts_seconds=300
    )  # fmt: skip


def test_a_line_has_the_time_and_a_command_and_no_colours_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    Watcher(Printing(), 8484, HERE).hear(LINE, 69.9)

    out = capsys.readouterr().out
    assert out.split() == [
        "01:09", "↻", "weather", "Oslo:", "try", "1", "of", "3", "failed", "ms", "logs", "'run_1/fetch[Oslo]'",
    ]  # fmt: skip
    assert out.count("\n") == 1


def test_in_a_narrow_terminal_the_command_has_a_line_of_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    Watcher(Printing(color="always"), 8484, HERE).hear(LINE, 0)

    first, second, _ = capsys.readouterr().out.split("\n")
    assert "Oslo" in first
    assert "\x1b[35m" in first
    assert "ms logs" in second


def test_a_program_is_told_nothing_before_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    watcher = Watcher(Printing(output="json"), 8484, HERE)
    watcher.see_opening(opening(HERE))
    watcher.hear(LINE, 0)
    watcher.take_over()

    assert capsys.readouterr().out == ""


def test_another_port_than_was_asked_for_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    watcher = Watcher(Printing(), 8484, HERE)
    watcher.see_opening(opening("http://127.0.0.1:8485"))
    watcher.take_over()

    out = capsys.readouterr().out
    assert "Port 8484 is taken" in out
    assert "for 5m 00s" in out
    assert "Ready in 1.2 s" in out
    assert "export MAINSPRING_SERVER_URL=http://127.0.0.1:8485" in out


def test_nothing_has_to_be_set_if_commands_ask_this_server_anyhow(capsys: pytest.CaptureFixture[str]) -> None:
    watcher = Watcher(Printing(), 8484, HERE)
    watcher.see_opening(opening(HERE))
    watcher.take_over()

    out = capsys.readouterr().out
    assert "taken" not in out
    assert "export" not in out
    assert "ms top" in out


def test_a_reader_that_has_gone_is_an_error_that_can_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may end the process from within: everything has to be ended first."""
    reading, writing = os.pipe()
    os.close(reading)
    with suppress(BrokenPipeError), os.fdopen(writing, "w") as gone:
        monkeypatch.setattr("sys.stdout", gone)
        with pytest.raises(BrokenPipeError):
            Watcher(Printing(), 8484, HERE).hear(LINE, 0)
