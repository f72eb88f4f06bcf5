"""`mainspring demo`: a five-minute demo on this machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.options import Printing, prints

if TYPE_CHECKING:
    from rich.text import Text

    from mainspring.cli.render.output import Table
    from mainspring.demo.checks import Check
    from mainspring.demo.play import DemoSettings, Ending, Opening
    from mainspring.demo.story import Line

_PORT = 8484
_USUAL_SERVER = f"http://127.0.0.1:{_PORT}"
_CHECK_SPEED = 10.0
_FAILED = 1
_INTERRUPTED = 130
_STYLES = {"✓": "green", "✕": "red", "!": "red", "⚡": "yellow", "↻": "magenta", "▶": "blue"}
_SUBJECT_WIDTH = 13
_TEXT_WIDTH = 62


@click.command("demo")
@click.option("--port", type=click.IntRange(0, 65_535), help="Port, or the next free one; 0 for any. [default: 8484]")
@click.option("--speed", type=click.FloatRange(0.1, 20), metavar="FACTOR", help="Speed of the script. [default: 1]")
@click.option("--for", "lasts", default="5m", show_default=True, metavar="DURATION", help="Duration of the demo.")
@click.option("--keep", is_flag=True, help="Keep the folder with the database and logs.")
@click.option("--check", is_flag=True, help="Run fast and report each check; exit with 1 on failure.")
@prints
def demo(printing: Printing, port: int | None, speed: float | None, lasts: str, keep: bool, check: bool) -> None:
    """Run a demo: a local server with six workers, failing and hanging tasks, and a lost worker.

    A real server that listens on 127.0.0.1 only and stores everything in a temporary folder. At the end, or on Ctrl-C,
    it is shut down and the folder removed; a second Ctrl-C does so immediately.

    \b
    Examples:
      mainspring demo
      mainspring demo --speed 4 --for 2m
      mainspring demo --check
    """
    from mainspring.demo.play import DemoSettings, play

    if check:
        _check(DemoSettings(port=port or 0, speed=speed or _CHECK_SPEED, keep=keep), printing)
        return
    wanted = _PORT if port is None else port
    watcher = Watcher(printing, wanted, _usual_server())
    ending = play(DemoSettings(port=wanted, speed=speed or 1.0, seconds=_seconds(lasts), keep=keep), watcher)
    if ending is not None:
        watcher.see_ending(ending)


def _check(settings: DemoSettings, printing: Printing) -> None:
    """Run all checks, and exit with their result."""
    from mainspring.cli.render.output import print_rows
    from mainspring.demo.play import play

    examiner = Examiner(printing)
    ending = play(settings, examiner)
    if not printing.is_for_people:
        print_rows(examiner.checks, _checks_table(), printing)
    if ending is None or ending.was_interrupted:
        sys.exit(_INTERRUPTED)
    wrong = sum(not check.ok for check in examiner.checks)
    if printing.is_for_people:
        click.echo(f"{len(examiner.checks)} checks, {wrong} failed")
    if wrong:
        sys.exit(_FAILED)


def _checks_table() -> Table[Check]:
    from mainspring.cli.render.output import Column, Table

    columns: list[Column[Check]] = [
        Column("scene", lambda check, _: check.scene),
        Column("name", lambda check, _: check.name),
        Column("ok", lambda check, _: "ok" if check.ok else "failed"),
        Column("found", lambda check, _: check.found),
    ]
    return Table(columns, id=lambda check: f"{check.scene}: {check.name}")


class Examiner:
    """Collects the checks, and prints each as it completes."""

    def __init__(self, printing: Printing) -> None:
        self._printing = printing
        self.checks: list[Check] = []

    def see_opening(self, opening: Opening) -> None:
        """Ignore the start."""

    def hear(self, line: Line, at_seconds: float) -> None:
        """Ignore lines: they are checked at the end."""

    def learn(self, check: Check) -> None:
        """Record and print a check."""
        self.checks.append(check)
        if self._printing.is_for_people:
            found = f": found {check.found}" if check.found else ""
            click.echo(f"{'ok' if check.ok else 'failed':<6}  {check.scene:<9}  {check.name}{found}")

    def take_over(self) -> None:
        """Ignore the end of the scenes."""


class Watcher:
    """Prints the demo as it happens."""

    def __init__(self, printing: Printing, port: int, usual_server: str | None) -> None:
        from mainspring.cli.render.terminal import console

        self._printing = printing
        self._port = port
        self._usual_server = usual_server
        self._console = console(printing.color, sys.stdout)
        self._address = ""

    def see_opening(self, opening: Opening) -> None:
        """Print the addresses and files."""
        from mainspring import __version__
        from mainspring.definitions.quantities import say_seconds

        self._address = opening.address
        fate = "kept" if opening.kept else "removed at the end; use --keep to keep it"
        lasts = f", for {say_seconds(opening.lasts_seconds)}" if opening.lasts_seconds is not None else ""
        self._say(f"Mainspring {__version__} demo: a real scheduler on your machine{lasts}\n", "bold")
        if self._port and not opening.address.endswith(f":{self._port}"):
            self._say(f"  Port {self._port} is in use; using {opening.address.rpartition(':')[2]}")
        self._say(f"  API       {opening.address}/api/v1 (docs: {opening.address}/api/docs)")
        self._say(f"  Metrics   {opening.address}/metrics")
        self._say(f"  Files     {opening.folder} ({fate})")
        self._say(
            f"  Ready in {opening.seconds:.1f} s · {opening.workers} workers in {opening.zones} zones · "
            f"{opening.tenants} tenants · nothing leaves this machine\n"
        )

    def hear(self, line: Line, at_seconds: float) -> None:
        """Print a line with its time and command."""
        from rich.text import Text

        from mainspring.demo.story import say_clock

        told = f"{line.subject:<{_SUBJECT_WIDTH}} {line.text}"
        start = f"  {say_clock(at_seconds)}  "
        gap = " " * max(2, _TEXT_WIDTH - len(told))
        is_wide = len(start) + 2 + len(told) + len(gap) + len(line.hint) <= self._console.width
        if line.hint and not is_wide and self._console.is_terminal:
            gap = "\n" + " " * (len(start) + 2)
        self._show(
            Text.assemble(
                start,
                (f"{line.glyph} ", _STYLES.get(line.glyph, "")),
                told,
                (gap + line.hint if line.hint else "", "cyan"),
            )
        )

    def learn(self, check: Check) -> None:
        """Ignore checks: viewers may interfere with the demo."""

    def take_over(self) -> None:
        """Print commands to try."""
        from mainspring.demo.story import YOUR_TURN

        lines = ["", "  Try these in another terminal:"]
        if self._address != self._usual_server:
            lines.append(f"    export MAINSPRING_SERVER_URL={self._address}")
        width = max(len(command) for command, _ in YOUR_TURN)
        lines += [f"    {command:<{width}}   {why}" for command, why in YOUR_TURN]
        self._say("\n".join([*lines, "  Press Ctrl-C to stop.", ""]))

    def see_ending(self, ending: Ending) -> None:
        """Print the summary."""
        from mainspring.cli.render.output import print_one
        from mainspring.demo.story import say_census

        def for_people() -> None:
            folder = f"kept {ending.folder}" if ending.kept else f"removed {ending.folder}"
            self._say(f"\n  Stopped {ending.stopped} running tasks and {ending.workers} workers, {folder}.")
            self._say(f"  {say_census(ending.census)}")

        print_one(ending, ending.folder, self._printing, for_people)

    def _say(self, text: str, style: str = "") -> None:
        from rich.text import Text

        self._show(Text(text, style=style))

    def _show(self, text: Text) -> None:
        if not self._printing.is_for_people:
            return
        # Rich exits the process on a broken pipe; captured output written by click raises BrokenPipeError instead.
        with self._console.capture() as drawn:
            self._console.print(text, soft_wrap=True)
        click.echo(drawn.get(), nl=False, color=True)


def _usual_server() -> str | None:
    """Return the server that this user's commands call by default; None if the configuration is invalid."""
    from mainspring.cli.config.connection_settings import find_whereabouts
    from mainspring.cli.options import Reach
    from mainspring.protocol.errors import MainspringError

    try:
        return find_whereabouts(Reach()).server.value or _USUAL_SERVER
    except MainspringError:
        return None  # The next command reports the configuration error.


def _seconds(length: str) -> float:
    from mainspring.definitions.quantities import seconds_of

    try:
        return seconds_of(length)
    except ValueError as error:
        raise click.UsageError(f"--for {length}: {error}") from error
