"""`mainspring demo`: see everything at work, on this machine, for five minutes."""

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
@click.option(
    "--port", type=click.IntRange(0, 65_535), help="Listen here, or on the next free one; 0: any. [default: 8484]"
)
@click.option("--speed", type=click.FloatRange(0.1, 20), help="Play the script so many times as fast. [default: 1]")
@click.option("--for", "lasts", default="5m", show_default=True, metavar="LENGTH", help="End after so long.")
@click.option("--keep", is_flag=True, help="Leave the folder there, with the database and the logs.")
@click.option("--check", is_flag=True, help="Play it fast, and say of each thing whether it was as it should be.")
@prints
def demo(printing: Printing, port: int | None, speed: float | None, lasts: str, keep: bool, check: bool) -> None:
    """Start a server and six workers here, and show what happens when tasks fail, hang, wait, or lose their worker.

    Everything is real, listens on 127.0.0.1 only, and is kept in a temporary folder. After the time, or with Ctrl-C,
    it is ended, and the folder removed; Ctrl-C again does so at once. With --check it exits with 1 if anything was
    not as it should be.

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
    """Play it for somebody who only wants to know whether it works, and exit by that."""
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
        click.echo(f"{len(examiner.checks)} checks, {wrong} not ok")
    if wrong:
        sys.exit(_FAILED)


def _checks_table() -> Table[Check]:
    from mainspring.cli.render.output import Column, Table

    columns: list[Column[Check]] = [
        Column("scene", lambda check, _: check.scene),
        Column("name", lambda check, _: check.name),
        Column("ok", lambda check, _: "ok" if check.ok else "not ok"),
        Column("found", lambda check, _: check.found),
    ]
    return Table(columns, id=lambda check: f"{check.scene}: {check.name}")


class Examiner:
    """Takes note of the checks, and says each as it is known."""

    def __init__(self, printing: Printing) -> None:
        self._printing = printing
        self.checks: list[Check] = []

    def see_opening(self, opening: Opening) -> None:
        """It begins: nothing to say of that."""

    def hear(self, line: Line, at_seconds: float) -> None:
        """What is told is checked at the end."""

    def learn(self, check: Check) -> None:
        """Something was as it should be, or not."""
        self.checks.append(check)
        if self._printing.is_for_people:
            found = f": found {check.found}" if check.found else ""
            click.echo(f"{'ok' if check.ok else 'not ok':<6}  {check.scene:<9}  {check.name}{found}")

    def take_over(self) -> None:
        """Nobody is there to take over."""


class Watcher:
    """Shows everything to a person, as it happens."""

    def __init__(self, printing: Printing, port: int, usual_server: str | None) -> None:
        from mainspring.cli.render.terminal import console

        self._printing = printing
        self._port = port
        self._usual_server = usual_server
        self._console = console(printing.color, sys.stdout)
        self._address = ""

    def see_opening(self, opening: Opening) -> None:
        """Where everything is."""
        from mainspring import __version__
        from mainspring.definitions.quantities import say_seconds

        self._address = opening.address
        fate = "kept" if opening.kept else "removed at the end, unless you say --keep"
        lasts = f", for {say_seconds(opening.lasts_seconds)}" if opening.lasts_seconds is not None else ""
        self._say(f"Mainspring {__version__} demo: a real scheduler on your machine{lasts}\n", "bold")
        if self._port and not opening.address.endswith(f":{self._port}"):
            self._say(f"  Port {self._port} is taken, so it is {opening.address.rpartition(':')[2]}")
        self._say(f"  API       {opening.address}/api/v1, explained at {opening.address}/api/docs")
        self._say(f"  Metrics   {opening.address}/metrics")
        self._say(f"  Files     {opening.folder} ({fate})")
        self._say(
            f"  Ready in {opening.seconds:.1f} s · {opening.workers} workers in {opening.zones} zones · "
            f"{opening.tenants} tenants · nothing leaves this machine\n"
        )

    def hear(self, line: Line, at_seconds: float) -> None:
        """Something happened."""
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
        """What is expected is nothing for whoever looks on: they may do as they like."""

    def take_over(self) -> None:
        """What they can type."""
        from mainspring.demo.story import YOUR_TURN

        lines = ["", "  Your turn, in another terminal:"]
        if self._address != self._usual_server:
            lines.append(f"    export MAINSPRING_SERVER_URL={self._address}")
        width = max(len(command) for command, _ in YOUR_TURN)
        lines += [f"    {command:<{width}}   {why}" for command, why in YOUR_TURN]
        self._say("\n".join([*lines, "  Ctrl-C ends it.", ""]))

    def see_ending(self, ending: Ending) -> None:
        """How it was."""
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
        # Rich would end the process if the reader has gone; written like this, that is an error like others.
        with self._console.capture() as drawn:
            self._console.print(text, soft_wrap=True)
        click.echo(drawn.get(), nl=False, color=True)


def _usual_server() -> str | None:
    """Which server the commands of this user ask if nothing is said; None if that can't be found out."""
    from mainspring.cli.config.connection_settings import find_whereabouts
    from mainspring.cli.options import Reach
    from mainspring.protocol.errors import MainspringError

    try:
        return find_whereabouts(Reach()).server.value or _USUAL_SERVER
    except MainspringError:
        return None  # The next command says what is wrong with their settings.


def _seconds(length: str) -> float:
    from mainspring.definitions.quantities import seconds_of

    try:
        return seconds_of(length)
    except ValueError as error:
        raise click.UsageError(f"--for {length}: {error}") from error
