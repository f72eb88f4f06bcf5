"""Pieces of Markdown that made pages consist of."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence


def code(text: str) -> str:
    """A text as code."""
    return f"`{text}`"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table, and an empty one behind it; no line at all if there is no row."""
    lines = [_row(cells) for cells in rows]
    return [_row(head), _row(["---"] * len(head)), *lines, ""] if lines else []


def first_sentence(thing: object) -> str:
    """What the docstring of a thing begins with."""
    return inspect.cleandoc(getattr(thing, "__doc__", None) or "").partition("\n")[0]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
