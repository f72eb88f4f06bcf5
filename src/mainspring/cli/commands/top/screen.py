"""The screen of `mainspring top`: its state and key bindings, without I/O.

Three layers; the topmost handles the keys:

    list          one of VIEWS, with a cursor and a text filter
    page          text opened with enter or l; escape or q closes it
    input line    text typed after / or :
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Literal, TypeAlias, TypeVar

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from mainspring.cli.commands.top.board import Board, headline
from mainspring.cli.options import Printing
from mainspring.cli.render.output import Table, format_ago, plain_lines, rich_table
from mainspring.cli.render.tables import RUNS, SCHEDULES, TASKS, WORKERS
from mainspring.protocol.rest.runs import RunView, TaskView, WorkerView
from mainspring.protocol.rest.schedules import ScheduleView

T = TypeVar("T", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """A list on the screen."""

    title: str
    table: Table[T]
    columns: tuple[str, ...]
    rows: Callable[[Board], Sequence[T]]
    has_logs: bool = False

    def filtered_rows(self, board: Board, words: str) -> Sequence[T]:
        """Return the rows that match a filter."""
        rows = self.rows(board)
        if not words or not rows:
            return rows
        lines = plain_lines(rows, self.table, Printing(output="wide", headers=False), board.at)
        return [row for row, line in zip(rows, lines, strict=True) if words.lower() in line.lower()]

    def ids(self, board: Board, words: str) -> list[str]:
        """Return the ids of the rows."""
        return [self.table.id(row) for row in self.filtered_rows(board, words)]

    def draw(self, board: Board, words: str, height: int, marked: int, now: datetime) -> list[RenderableType]:
        """Draw the title and as many rows as fit, including the marked one; each takes a line."""
        rows = self.filtered_rows(board, words)
        drawn: list[RenderableType] = [Text(f"{self.title}: {len(rows) or 'none'}", style="bold")]
        if not rows:
            return drawn
        max_rows = max(1, height - 2)
        is_marked = 0 <= marked < len(rows)
        first = max(0, marked - max_rows + 1) if is_marked else 0
        table = rich_table(rows[first : first + max_rows], self.table, Printing(columns=self.columns), now)
        if is_marked:
            table.rows[marked - first].style = "reverse"
        return [*drawn, table]


@dataclass(frozen=True, slots=True)
class KeyAction:
    """Action requested by a key."""

    kind: Literal["quit", "show", "logs"]
    id: str = ""


_RUN_COLUMNS = ("job", "state", "priority", "took", "reason", "id")
_ACTIVE_COLUMNS = ("job", "state", "priority", "tasks", "took", "id")
_TASK_COLUMNS = ("name", "state", "worker", "ran", "reason", "id")
_WAITING_COLUMNS = ("name", "state", "since", "reason", "id")
_WORKER_COLUMNS = ("id", "status", "hold", "running", "cpu", "last_heartbeat")
_SCHEDULE_COLUMNS = ("name", "job", "state", "fires", "next")
AnyPart: TypeAlias = "Part[RunView] | Part[TaskView] | Part[WorkerView] | Part[ScheduleView]"

VIEWS: dict[str, tuple[AnyPart, ...]] = {
    "overview": (
        Part("active runs", RUNS, _ACTIVE_COLUMNS, lambda board: board.active, has_logs=True),
        Part("waiting tasks", TASKS, _WAITING_COLUMNS, lambda board: board.waiting, has_logs=True),
        Part("recently failed runs", RUNS, _RUN_COLUMNS, lambda board: board.failed, has_logs=True),
    ),
    "runs": (Part("runs", RUNS, _RUN_COLUMNS, lambda board: board.latest, has_logs=True),),
    "tasks": (Part("tasks", TASKS, _TASK_COLUMNS, lambda board: board.tasks, has_logs=True),),
    "workers": (Part("workers", WORKERS, _WORKER_COLUMNS, lambda board: board.workers),),
    "schedules": (Part("schedules", SCHEDULES, _SCHEDULE_COLUMNS, lambda board: board.schedules),),
}
KEYS = (
    ("tab", "next list; also :runs :tasks :workers :schedules :overview"),
    ("up, down, k, j", "move the cursor; page up and page down by page"),
    ("enter", "show details"),
    ("l", "show logs of a run or task"),
    ("/", "filter lines; escape to clear"),
    ("escape", "back"),
    ("q", "back, or quit"),
)
_HEADER_LINES = 3
_PAGE = 10
_STEPS = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -_PAGE, "page down": _PAGE}
"""Lines by which a key moves the cursor or scrolls a page."""
_MIN_BODY_LINES = 3


class Screen:
    """State of the screen."""

    def __init__(self) -> None:
        self.view = "overview"
        self.cursor = 0
        self.filter = ""
        self.typed: str | None = None
        """The input line, with its leading / or :."""
        self.page: list[str] | None = None
        self._title = ""
        self._top = 0

    def open(self, title: str, lines: Sequence[str]) -> None:
        """Open a page over the list."""
        self._title, self.page, self._top = title, list(lines), 0

    def press(self, key: str, board: Board) -> KeyAction | None:
        """Handle a key; return the action it requests, if any."""
        if self.typed is not None:
            self._type(key)
        elif self.page is not None:
            self._scroll(key, self.page)
        else:
            return self._navigate(key, board)
        return None

    def _type(self, key: str) -> None:
        assert self.typed is not None, "called only while the input line is open"
        match key:
            case "escape":
                self.typed = None
            case "backspace":
                self.typed = self.typed[:-1] or None
            case "enter":
                self._submit_typed(self.typed)
                self.typed = None
            case _ if len(key) == 1:
                self.typed += key

    def _submit_typed(self, typed: str) -> None:
        """Apply the input line."""
        word = typed[1:].strip()
        if typed.startswith("/"):
            self.filter, self.cursor = word, 0
            return
        for view in VIEWS:
            if word and view.startswith(word):
                self._go(view)
                return

    def _scroll(self, key: str, page: list[str]) -> None:
        match key:
            case "escape" | "q":
                self.page = None
            case "home" | "g":
                self._top = 0
            case "end" | "G":
                self._top = len(page)
            case _:
                self._top += _PAGE if key == " " else _STEPS.get(key, 0)

    def _navigate(self, key: str, board: Board) -> KeyAction | None:
        views = list(VIEWS)
        match key:
            case "q":
                return KeyAction("quit")
            case "tab" | "back tab":
                self._go(views[(views.index(self.view) + (1 if key == "tab" else -1)) % len(views)])
            case "/" | ":":
                self.typed = key
            case "?":
                self.open("keys", [f"{name:<16} {about}" for name, about in KEYS])
            case "escape":
                self.filter = ""
            case "enter" | "l":
                return self._action_at_cursor(key, board)
            case _:
                self.cursor += _STEPS.get(key, 0)
        return None

    def _action_at_cursor(self, key: str, board: Board) -> KeyAction | None:
        """Return the action of a key on the row under the cursor, if there is one."""
        lines = [(part, line) for part in VIEWS[self.view] for line in part.ids(board, self.filter)]
        if not lines:
            return None
        part, here = lines[self._clamped(len(lines))]
        if key == "enter":
            return KeyAction("show", here)
        return KeyAction("logs", here) if part.has_logs else None

    def _go(self, view: str) -> None:
        self.view, self.cursor, self.filter = view, 0, ""

    def _clamped(self, count: int) -> int:
        self.cursor = max(0, min(self.cursor, count - 1))
        return self.cursor

    def draw(self, board: Board, now: datetime, *, is_stale: bool) -> RenderableType:
        """Draw the whole screen."""
        size = shutil.get_terminal_size()
        height = max(_MIN_BODY_LINES, size.lines - _HEADER_LINES - 1)
        body = self._draw_page(height) if self.page is not None else self._draw_lists(board, now, height)
        return Group(self._draw_header(board, now, is_stale=is_stale), body, self._draw_footer())

    def _draw_header(self, board: Board, now: datetime, *, is_stale: bool) -> Text:
        first, second = headline(board)
        age = f"  no answer, last update {format_ago(board.at, now)}" if is_stale else ""
        tabs = " ".join(f"[{view}]" if view == self.view else f" {view} " for view in VIEWS)
        lines = Text.assemble((first, "bold"), (age, "red"), "\n", second, "\n", (tabs, "dim"))
        lines.no_wrap, lines.overflow = True, "crop"
        return lines

    def _draw_lists(self, board: Board, now: datetime, height: int) -> RenderableType:
        """Draw the lists of the view, each with its share of the height and the cursor in view."""
        parts = VIEWS[self.view]
        counts = [len(part.ids(board, self.filter)) for part in parts]
        marked = self._clamped(sum(counts))
        drawn: list[RenderableType] = []
        lines_left = height
        for place, (part, count) in enumerate(zip(parts, counts, strict=True)):
            share = lines_left // (len(parts) - place)
            drawn += part.draw(board, self.filter, share, marked, now)
            lines_left -= 1 if not count else min(share, count + 2)
            marked -= count
        return Group(*drawn, *(Text() for _ in range(lines_left)))

    def _draw_page(self, height: int) -> Text:
        assert self.page is not None, "called only while a page is open"
        self._top = max(0, min(self._top, len(self.page) - height + 1))
        lines = self.page[self._top : self._top + height - 1]
        clean = ("".join(letter if letter.isprintable() else " " for letter in line) for line in lines)
        text = Text("\n".join([self._title, *clean, *[""] * (height - 1 - len(lines))]), no_wrap=True, overflow="crop")
        text.stylize("bold", 0, len(self._title))
        return text

    def _draw_footer(self) -> Text:
        if self.typed is not None:
            return Text(f"{self.typed}▏", no_wrap=True)
        words = f"filter: {self.filter}   " if self.filter else ""
        return Text(f"{words}tab lists  enter show  l logs  / filter  ? keys  q quit", style="dim", no_wrap=True)
