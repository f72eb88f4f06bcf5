"""Console output of the demo: plain text in pipes, color and wrapping on terminals."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

from mainspring.cli.commands.local.demo import DemoPrinter
from mainspring.cli.options import Printing
from mainspring.demo.console_lines import Line, LineCode
from mainspring.demo.runner import DemoStarted

LINE = Line(
    glyph="↻", subject="weather", code=LineCode.RETRY, text="Oslo: attempt 1 failed", hint="ms logs 'run_1/fetch[Oslo]'"
)  # fmt: skip
HERE = "http://127.0.0.1:8484"


def opening(address: str) -> DemoStarted:
    """Build the start of a demo."""
    return DemoStarted(
        address=address, folder="/tmp/demo", kept=False, seconds=1.25, workers=6, zones=3, tenants=3, lasts_seconds=300
    )  # fmt: skip


def test_a_line_has_time_and_hint_without_colors_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    DemoPrinter(Printing(), 8484, HERE).on_line(LINE, 69.9)

    out = capsys.readouterr().out
    assert out.split() == [
        "01:09", "↻", "weather", "Oslo:", "attempt", "1", "failed", "ms", "logs", "'run_1/fetch[Oslo]'",
    ]  # fmt: skip
    assert out.count("\n") == 1


def test_on_a_narrow_terminal_the_hint_has_its_own_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    DemoPrinter(Printing(color="always"), 8484, HERE).on_line(LINE, 0)

    first, second, _ = capsys.readouterr().out.split("\n")
    assert "Oslo" in first
    assert "\x1b[35m" in first
    assert "ms logs" in second


def test_json_output_has_no_intermediate_lines(capsys: pytest.CaptureFixture[str]) -> None:
    printer = DemoPrinter(Printing(output="json"), 8484, HERE)
    printer.on_start(opening(HERE))
    printer.on_line(LINE, 0)
    printer.on_scenes_finished()

    assert capsys.readouterr().out == ""


def test_a_different_port_than_requested_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    printer = DemoPrinter(Printing(), 8484, HERE)
    printer.on_start(opening("http://127.0.0.1:8485"))
    printer.on_scenes_finished()

    out = capsys.readouterr().out
    assert "Port 8484 is in use" in out
    assert "for 5m 00s" in out
    assert "Ready in 1.2 s" in out
    assert "export MAINSPRING_SERVER_URL=http://127.0.0.1:8485" in out


def test_no_export_is_suggested_if_commands_use_this_server_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    printer = DemoPrinter(Printing(), 8484, HERE)
    printer.on_start(opening(HERE))
    printer.on_scenes_finished()

    out = capsys.readouterr().out
    assert "in use" not in out
    assert "export" not in out
    assert "ms top" in out


def test_a_closed_pipe_raises_instead_of_exiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich must not exit the process: the cluster has to be shut down first."""
    reading, writing = os.pipe()
    os.close(reading)
    with suppress(BrokenPipeError), os.fdopen(writing, "w") as gone:
        monkeypatch.setattr("sys.stdout", gone)
        with pytest.raises(BrokenPipeError):
            DemoPrinter(Printing(), 8484, HERE).on_line(LINE, 0)
