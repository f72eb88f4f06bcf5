"""The terminal: color support, state colors, progress bars and live views."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NoReturn, TextIO, TypeVar

from mainspring.protocol.clock import SystemClock

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

T = TypeVar("T")

STYLES = {
    "SUCCEEDED": "green",
    "RUNNING": "blue",
    "ASSIGNED": "cyan",
    "QUEUED": "cyan",
    "PENDING": "dim",
    "PAUSED": "yellow",
    "PARTIAL": "yellow",
    "FAILED": "red",
    "TIMED_OUT": "red",
    "QUARANTINED": "magenta",
    "CANCELLED": "dim",
    "SKIPPED": "dim",
    "ready": "green",
    "suspect": "yellow",
    "lost": "red",
    "gone": "dim",
}
"""Colors of states, in addition to the words."""
REFRESH_SECONDS = 1.0
"""Interval between refreshes of live views."""
_TERMINATED = 143


def has_color(choice: str, stream: TextIO) -> bool:
    """Whether to use color: by the option, then NO_COLOR, then FORCE_COLOR, then whether it is a terminal."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR") or os.environ.get("CLICOLOR_FORCE"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def console(color: str, stream: TextIO) -> Console:
    """Return a rich console for a stream."""
    from rich.console import Console

    wanted = has_color(color, stream)
    return Console(
        file=stream, force_terminal=wanted or None, color_system="auto" if wanted else None, no_color=not wanted,
        highlight=False, soft_wrap=False,
    )  # fmt: skip


def is_interactive(stream: TextIO) -> bool:
    """Whether a stream is a terminal that supports live updates."""
    return stream.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("MAINSPRING_NO_PROGRESS")


@contextmanager
def progress_bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on stderr if it is a terminal. Yields a function that sets the completed count."""
    if not is_interactive(sys.stderr):
        yield lambda done: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console("auto", sys.stderr), transient=True) as drawn:
        task = drawn.add_task(what, total=total)
        yield lambda done: drawn.update(task, completed=done)


def with_progress_bar(lines: Iterable[T], what: str, total: int | None) -> Iterator[T]:
    """Pass lines through, with a progress bar on stderr if it is a terminal."""
    with progress_bar(what, total) as advance:
        for number, line in enumerate(lines, 1):
            yield line
            advance(number)


@contextmanager
def status(what: str) -> Iterator[Callable[[int], None]]:
    """Show a spinner on stderr if it is a terminal, for work of unknown length. Yields a function as `progress_bar`
    does."""
    if not is_interactive(sys.stderr):
        yield lambda done: None
        return
    with console("auto", sys.stderr).status(what) as drawn:
        yield lambda done: drawn.update(f"{what} ({done})")


@contextmanager
def live_view(color: str, draw: Callable[[], RenderableType], *, full_screen: bool = False) -> Iterator[Live]:
    """Show a view that is redrawn when refreshed and, unless it is full-screen, every second by another thread.

    The terminal is restored afterwards, also on SIGTERM.
    """
    from rich.live import Live

    with exit_on_sigterm(), Live(
        console=console(color, sys.stdout), get_renderable=draw, refresh_per_second=1, vertical_overflow="crop",
        auto_refresh=not full_screen, screen=full_screen,
    ) as live:  # fmt: skip
        yield live


def show_live(color: str, fetch: Callable[[], T], draw: Callable[[T], RenderableType]) -> NoReturn:
    """Show the latest snapshot until interrupted; it is fetched and redrawn every second."""
    clock, latest = SystemClock(), fetch()
    with live_view(color, lambda: draw(latest)) as live:
        while True:
            clock.pause(REFRESH_SECONDS)
            latest = fetch()
            live.refresh()


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into SystemExit within the block, so that it can clean up."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        sys.exit(_TERMINATED)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
