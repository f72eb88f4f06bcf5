"""The terminal: whether there are colours, what colour a state has, and a view that is drawn again and again."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

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
"""A colour for what is also said as a word."""
_TERMINATED = 143


def has_color(choice: str, stream: TextIO) -> bool:
    """Whether to use colours: the choice first, then NO_COLOR, then FORCE_COLOR, then whether it is a terminal."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR") or os.environ.get("CLICOLOR_FORCE"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def console(color: str, stream: TextIO) -> Console:
    """A console that draws for people."""
    from rich.console import Console

    wanted = has_color(color, stream)
    return Console(
        file=stream, force_terminal=wanted or None, color_system="auto" if wanted else None, no_color=not wanted,
        highlight=False, soft_wrap=False,
    )  # fmt: skip


def is_drawn_to(stream: TextIO) -> bool:
    """Whether somebody looks on who wants to see things move."""
    return stream.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("MAINSPRING_NO_PROGRESS")


@contextmanager
def bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on stderr if somebody looks on; whoever has it says how many are done."""
    if not is_drawn_to(sys.stderr):
        yield lambda done: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console("auto", sys.stderr), transient=True) as drawn:
        task = drawn.add_task(what, total=total)
        yield lambda done: drawn.update(task, completed=done)


@contextmanager
def status(what: str) -> Iterator[Callable[[int], None]]:
    """A line on stderr that moves if somebody looks on, for what has no end that is known before; as with `bar`."""
    if not is_drawn_to(sys.stderr):
        yield lambda done: None
        return
    with console("auto", sys.stderr).status(what) as drawn:
        yield lambda done: drawn.update(f"{what} ({done})")


@contextmanager
def live_view(color: str, draw: Callable[[], RenderableType]) -> Iterator[Live]:
    """A view that is drawn every second, and when it is refreshed, from another thread.

    The terminal is as it was afterwards, also after SIGTERM.
    """
    from rich.live import Live

    with (
        leaving_when_told(),
        Live(
            console=console(color, sys.stdout), get_renderable=draw, refresh_per_second=1, vertical_overflow="crop"
        ) as live,
    ):
        yield live


@contextmanager
def whole_screen(color: str, draw: Callable[[], RenderableType]) -> Iterator[Live]:
    """A view that has the whole screen for itself, drawn when it is refreshed; what was there comes back afterwards."""
    from rich.live import Live

    with (
        leaving_when_told(),
        Live(console=console(color, sys.stdout), get_renderable=draw, auto_refresh=False, screen=True) as live,
    ):
        yield live


@contextmanager
def leaving_when_told() -> Iterator[None]:
    """SIGTERM ends the block as an interrupt does, so that what is in it can clean up."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        sys.exit(_TERMINATED)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
