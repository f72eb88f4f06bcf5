"""Interactive `mainspring top`: one thread fetches, one follows events, and the main thread draws and handles keys.

1. The board is fetched at most once a second after events, otherwise every few seconds.
2. The latest board is drawn. While the server does not answer, the old one stays and is marked as stale.
3. Keys change a `Screen`, which does no I/O; the actions it returns are performed here.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING

from mainspring.cli.commands.top.board import Board, read_board
from mainspring.cli.commands.top.keyboard import pressed_keys
from mainspring.cli.commands.top.screen import Screen
from mainspring.cli.options import ConnectionOptions, Printing
from mainspring.cli.render import terminal
from mainspring.cli.render.details import DetailPrinter
from mainspring.cli.render.log_view import LogView
from mainspring.client.client import Client
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import MainspringError, Unavailable

if TYPE_CHECKING:
    from rich.console import RenderableType

_MIN_REFRESH_SECONDS = 1.0
"""Minimum interval between fetches."""
_MAX_REFRESH_SECONDS = 5.0
"""Maximum interval between fetches, without events."""
_KEY_SECONDS = 0.25
_TAIL_LINES = 500


class Dashboard:
    """The interactive view, until the user quits."""

    def __init__(self, connection: ConnectionOptions, printing: Printing) -> None:
        self._connection = connection
        self._printing = printing
        self._clock = SystemClock()
        self._changed = threading.Event()
        self._stopped = threading.Event()
        self._fault: MainspringError | None = None
        self._board: Board
        self._screen = Screen()

    def run(self) -> None:
        """Show the view. Raises the error of the first fetch, or one that ends fetching."""
        with self._connection.client() as client:
            self._board = read_board(client)
        threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._follow_events)]
        try:
            with (
                pressed_keys() as keyboard,
                terminal.live_view(self._printing.color, self._draw, full_screen=True) as live,
            ):
                for thread in threads:
                    thread.start()
                while self._handle_keys(keyboard.read(_KEY_SECONDS)):
                    live.refresh()
        except EOFError:
            # The terminal was closed.
            pass
        finally:
            self._stopped.set()
            self._changed.set()
        if self._fault is not None and not isinstance(self._fault, Unavailable):
            raise self._fault

    def _handle_keys(self, keys: list[str]) -> bool:
        """Handle keys; return whether to continue."""
        for key in keys:
            action = self._screen.press(key, self._board)
            if action is None:
                continue
            if action.kind == "quit":
                return False
            title = f"logs of {action.id}" if action.kind == "logs" else action.id
            self._screen.open(title, self._capture(_PAGES[action.kind], action.id))
        return self._fault is None or isinstance(self._fault, Unavailable)

    def _capture(self, print_page: Callable[[Client, Printing, str], None], id: str) -> list[str]:
        """Capture the output of a command as lines."""
        printing = replace(self._printing, color="never")
        kept = io.BytesIO()
        page = io.TextIOWrapper(kept, encoding="utf-8", write_through=True)
        with redirect_stdout(page), redirect_stderr(page), self._connection.client() as client:
            try:
                print_page(client, printing, id)
            except MainspringError as error:
                return str(error).splitlines()
        return kept.getvalue().decode(errors="replace").splitlines() or ["no output"]

    def _draw(self) -> RenderableType:
        is_stale = isinstance(self._fault, Unavailable)
        return self._screen.draw(self._board, self._clock.wall(), is_stale=is_stale)

    def _read(self) -> None:
        """Keep the board up to date; runs in its own thread."""
        with self._connection.client() as client:
            while not self._stopped.wait(_MIN_REFRESH_SECONDS):
                self._changed.wait(_MAX_REFRESH_SECONDS - _MIN_REFRESH_SECONDS)
                self._changed.clear()
                try:
                    self._board = read_board(client)
                    self._fault = None
                except MainspringError as error:
                    self._fault = error

    def _follow_events(self) -> None:
        """Follow events; runs in its own thread."""
        while not self._stopped.is_set():
            try:
                with self._connection.watch_client() as client, client.events() as events:
                    for event in events:
                        if self._stopped.is_set():
                            return
                        if event is not None:
                            self._changed.set()
            except MainspringError:
                # Without the stream the board is still fetched every few seconds, and marked if the server is down.
                self._stopped.wait(_MAX_REFRESH_SECONDS)


def _show(client: Client, printing: Printing, id: str) -> None:
    DetailPrinter(client, printing).show(id)


def _show_log(client: Client, printing: Printing, id: str) -> None:
    LogView(client, printing, tail=_TAIL_LINES, attempt=None).show(id)


_PAGES = {"show": _show, "logs": _show_log}
