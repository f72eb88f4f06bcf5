"""Markdown fragments of generated pages."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence


def code(text: str) -> str:
    """Format a text as code."""
    return f"`{text}`"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table and a blank line; nothing if there are no rows."""
    lines = [_row(cells) for cells in rows]
    return [_row(head), _row(["---"] * len(head)), *lines, ""] if lines else []


def first_sentence(thing: object) -> str:
    """Return the first sentence of a docstring."""
    return inspect.cleandoc(getattr(thing, "__doc__", None) or "").partition("\n")[0]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
