"""`mainspring demo`: a five-minute demo on this machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.options import Printing, with_output_options

if TYPE_CHECKING:
    from rich.text import Text

    from mainspring.demo.checks import Check
    from mainspring.demo.console_lines import Line
    from mainspring.demo.runner import DemoSettings, DemoStarted, DemoSummary

_PORT = 8484
_DEFAULT_SERVER = f"http://127.0.0.1:{_PORT}"
_CHECK_SPEED = 10.0
_FAILED = 1
_INTERRUPTED = 130
_STYLES = {"✓": "green", "✕": "red", "!": "red", "⚡": "yellow", "↻": "magenta", "▶": "blue"}
_SUBJECT_WIDTH = 13
_TEXT_WIDTH = 62


@click.command("demo")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Port, or the next free one; 0 for any. [default: 8484]",
)
@click.option("--speed", type=click.FloatRange(0.1, 20), metavar="FACTOR", help="Speed of the script. [default: 1]")
@click.option("--for", "lasts", default="5m", show_default=True, metavar="DURATION", help="Duration of the demo.")
@click.option("--keep", is_flag=True, help="Keep the folder with the database and logs.")
@click.option("--check", is_flag=True, help="Run fast and report each check; exit with 1 on failure.")
@with_output_options
def demo(printing: Printing, port: int | None, speed: float | None, lasts: str, keep: bool, check: bool) -> None:
    """Run a demo: a local server with six workers and scripted failures.

    Tasks fail and hang, and a worker is lost. The server is real, listens on 127.0.0.1 only, and stores everything
    in a temporary folder. At the end, or on Ctrl-C, it is shut down and the folder is removed; a second Ctrl-C stops
    it immediately.

    \b
    Examples:
      mainspring demo
      mainspring demo --speed 4 --for 2m
      mainspring demo --check
    """
    from mainspring.cli.render.times import parse_duration
    from mainspring.demo.runner import DemoSettings, play

    if check:
        _check(DemoSettings(port=port or 0, speed=speed or _CHECK_SPEED, keep=keep), printing)
        return
    wanted = _PORT if port is None else port
    printer = DemoPrinter(printing, wanted, _find_configured_server())
    summary = play(
        DemoSettings(port=wanted, speed=speed or 1.0, seconds=parse_duration(lasts, "--for"), keep=keep), printer
    )
    if summary is not None:
        printer.on_end(summary)


def _check(settings: DemoSettings, printing: Printing) -> None:
    """Run all checks, and exit with their result."""
    from mainspring.cli.render.output import Table, print_rows
    from mainspring.demo.checks import Check
    from mainspring.demo.runner import play

    check_printer = CheckPrinter(printing)
    summary = play(settings, check_printer)
    if not printing.is_human_readable:
        table = Table.of(
            Check,
            "scene name ok found",
            ok=lambda check, _: "ok" if check.ok else "failed",
            id=lambda check: f"{check.scene}: {check.name}",
        )
        print_rows(check_printer.checks, table, printing)
    if summary is None or summary.was_interrupted:
        sys.exit(_INTERRUPTED)
    wrong = sum(not check.ok for check in check_printer.checks)
    if printing.is_human_readable:
        click.echo(f"{len(check_printer.checks)} checks, {wrong} failed")
    if wrong:
        sys.exit(_FAILED)


class CheckPrinter:
    """Collects the checks, and prints each as it completes."""

    def __init__(self, printing: Printing) -> None:
        self._printing = printing
        self.checks: list[Check] = []

    def on_start(self, started: DemoStarted) -> None:
        """Ignore the start."""

    def on_line(self, line: Line, at_seconds: float) -> None:
        """Ignore lines: they are checked at the end."""

    def on_check(self, check: Check) -> None:
        """Record and print a check."""
        self.checks.append(check)
        if self._printing.is_human_readable:
            found = f": found {check.found}" if check.found else ""
            click.echo(f"{'ok' if check.ok else 'failed':<6}  {check.scene:<9}  {check.name}{found}")

    def on_scenes_finished(self) -> None:
        """Ignore the end of the scenes."""


class DemoPrinter:
    """Prints the demo as it happens."""

    def __init__(self, printing: Printing, port: int, configured_server: str | None) -> None:
        from mainspring.cli.render.terminal import console

        self._printing = printing
        self._port = port
        self._configured_server = configured_server
        self._console = console(printing.color, sys.stdout)
        self._address = ""

    def on_start(self, started: DemoStarted) -> None:
        """Print the addresses and files."""
        from mainspring import __version__
        from mainspring.core.text.durations import format_seconds

        self._address = started.address
        retention = "kept" if started.kept else "removed at the end; use --keep to keep it"
        lasts = f", for {format_seconds(started.lasts_seconds)}" if started.lasts_seconds is not None else ""
        self._print_line(f"Mainspring {__version__} demo: a real scheduler on your machine{lasts}\n", "bold")
        if self._port and not started.address.endswith(f":{self._port}"):
            self._print_line(f"  Port {self._port} is in use; using {started.address.rpartition(':')[2]}")
        self._print_line(f"  API       {started.address}/api/v1 (docs: {started.address}/api/docs)")
        self._print_line(f"  Metrics   {started.address}/metrics")
        self._print_line(f"  Files     {started.folder} ({retention})")
        self._print_line(
            f"  Ready in {started.seconds:.1f} s · {started.workers} workers in {started.zones} zones · "
            f"{started.tenants} tenants · nothing leaves this machine\n"
        )

    def on_line(self, line: Line, at_seconds: float) -> None:
        """Print a line with its time and command."""
        from rich.text import Text

        from mainspring.demo.console_lines import format_clock

        message = f"{line.subject:<{_SUBJECT_WIDTH}} {line.text}"
        start = f"  {format_clock(at_seconds)}  "
        gap = " " * max(2, _TEXT_WIDTH - len(message))
        is_wide = len(start) + 2 + len(message) + len(gap) + len(line.hint) <= self._console.width
        if line.hint and not is_wide and self._console.is_terminal:
            gap = "\n" + " " * (len(start) + 2)
        self._show(
            Text.assemble(
                start,
                (f"{line.glyph} ", _STYLES.get(line.glyph, "")),
                message,
                (gap + line.hint if line.hint else "", "cyan"),
            )
        )

    def on_check(self, check: Check) -> None:
        """Ignore checks: viewers may interfere with the demo."""

    def on_scenes_finished(self) -> None:
        """Print commands to try."""
        from mainspring.demo.console_lines import YOUR_TURN

        lines = ["", "  Try these in another terminal:"]
        if self._address != self._configured_server:
            lines.append(f"    export MAINSPRING_SERVER_URL={self._address}")
        width = max(len(command) for command, _ in YOUR_TURN)
        lines += [f"    {command:<{width}}   {why}" for command, why in YOUR_TURN]
        self._print_line("\n".join([*lines, "  Press Ctrl-C to stop.", ""]))

    def on_end(self, summary: DemoSummary) -> None:
        """Print the summary."""
        from mainspring.cli.render.output import print_one
        from mainspring.demo.console_lines import format_census

        def print_text() -> None:
            folder = f"kept {summary.folder}" if summary.kept else f"removed {summary.folder}"
            self._print_line(f"\n  Stopped {summary.stopped} running tasks and {summary.workers} workers, {folder}.")
            self._print_line(f"  {format_census(summary.census)}")

        print_one(summary, summary.folder, self._printing, print_text)

    def _print_line(self, text: str, style: str = "") -> None:
        from rich.text import Text

        self._show(Text(text, style=style))

    def _show(self, text: Text) -> None:
        if not self._printing.is_human_readable:
            return
        # Rich exits the process on a broken pipe; captured output written by click raises BrokenPipeError instead.
        with self._console.capture() as drawn:
            self._console.print(text, soft_wrap=True)
        click.echo(drawn.get(), nl=False, color=True)


def _find_configured_server() -> str | None:
    """Return the server that this user's commands call by default; None if the configuration is invalid."""
    from mainspring.cli.config.connection_settings import resolve_connection_settings
    from mainspring.cli.options import ConnectionOptions
    from mainspring.protocol.errors import MainspringError

    try:
        return resolve_connection_settings(ConnectionOptions()).server.value or _DEFAULT_SERVER
    except MainspringError:
        return None  # The next command reports the configuration error.
