"""Commands as processes on a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.terminal import Terminal, job
from tests.e2e.cluster import until

pytestmark = pytest.mark.processes

COMMAND = [sys.executable, "-m", "mainspring.cli.main"]
SHOW_CURSOR, HIDE_CURSOR = b"\x1b[?25h", b"\x1b[?25l"
STAYS = job("at-a-terminal", "id: only, run: sleep 60")


class Screen:
    """A command on its own pseudo-terminal."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self.process = process
        self._terminal = terminal
        self.seen = b""

    def read_until(self, word: bytes) -> None:
        """Read until a word appears."""
        while word not in self.seen:
            piece = self._read()
            assert piece, f"it ended before {word!r}: {self.seen!r}"

    def type(self, text: bytes) -> None:
        """Type something."""
        os.write(self._terminal, text)

    def read_to_end(self) -> int:
        """Read until the command ends, and return its exit code."""
        while self._read():
            pass
        return self.process.wait(30)

    def _read(self) -> bytes:
        try:
            piece = os.read(self._terminal, 65_536)
        except OSError:
            # EIO: all writers have closed the terminal.
            return b""
        self.seen += piece
        return piece


@contextmanager
def screen(*arguments: str, **environment: str) -> Iterator[Screen]:
    """Run a command on a pseudo-terminal within the block."""
    ours, theirs = pty.openpty()
    said = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR"}}
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**said, "TERM": "xterm-256color", **environment},
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Screen(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=str)
def test_an_interrupted_view_restores_the_terminal(terminal: Terminal, number: signal.Signals, exit_code: int) -> None:
    run = terminal.out("submit", "-", "-q", stdin=STAYS).strip()
    try:
        with screen("watch", run) as watching:
            watching.read_until(b"RUNNING")
            watching.process.send_signal(number)

            assert watching.read_to_end() == exit_code
            assert watching.seen.count(HIDE_CURSOR) == watching.seen.count(SHOW_CURSOR) == 1
            assert b"Traceback" not in watching.seen
    finally:
        terminal.out("cancel", run)


def test_a_view_ends_with_its_run(terminal: Terminal) -> None:
    run = terminal.finished(job("seen", "id: only, run: 'true'"))

    with screen("watch", run) as watching:
        assert watching.read_to_end() == 0
        assert f"{run} SUCCEEDED".encode() in watching.seen


@pytest.mark.parametrize(("answer", "exit_code", "state"), [(b"n\n", 1, "RUNNING"), (b"y\n", 0, "CANCELLED")])
def test_a_bulk_action_prompts_with_the_number_of_runs(
    terminal: Terminal, answer: bytes, exit_code: int, state: str
) -> None:
    name = f"asked-{state.lower()}"
    run = terminal.out("submit", "-", "-q", stdin=STAYS.replace("at-a-terminal", name)).strip()
    until(lambda: terminal.json("tasks", run, "--state", "RUNNING"), "it runs")
    try:
        with screen("cancel", "--filter", f"job:{name}") as asking:
            asking.read_until(b"cancel 1 run?")
            asking.type(answer)

            assert asking.read_to_end() == exit_code
        until(lambda: terminal.json("show", run)["state"] == state, f"the run is {state}")
    finally:
        terminal.out("cancel", run)


def test_a_dumb_terminal_gets_plain_text(terminal: Terminal) -> None:
    with screen("workers", TERM="dumb") as listing:
        assert listing.read_to_end() == 0
        assert b"w1" in listing.seen
        assert b"\x1b" not in listing.seen
