"""Answers about many runs, with a bar while they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import rich_click as click

from mainspring.cli.options import Printing
from mainspring.cli.render import terminal
from mainspring.cli.render.output import print_rows
from mainspring.cli.render.tables import BULK
from mainspring.protocol.rest.runs import BulkLine

T = TypeVar("T")

_MOST_SHOWN = 20
"""Problems that people are shown."""


def print_bulk(lines: Iterable[BulkLine], total: int | None, printing: Printing) -> bool:
    """Print what became of each run; for people how many were taken, and the first problems. Whether all were taken."""
    counted = _Counted(with_bar(lines, "submitting", total))
    if printing.is_for_people:
        problems = [line for line in counted if line.problem is not None]
        click.echo(f"{counted.taken} of {counted.all} runs submitted")
        if problems:
            print_rows(problems[:_MOST_SHOWN], BULK, printing)
    else:
        print_rows(counted, BULK, printing)
    return counted.taken == counted.all


class _Counted:
    """Lines that are counted as they go by."""

    def __init__(self, lines: Iterable[BulkLine]) -> None:
        self._lines = lines
        self.all = 0
        self.taken = 0

    def __iter__(self) -> Iterator[BulkLine]:
        for line in self._lines:
            self.all += 1
            self.taken += line.problem is None
            yield line


def with_bar(lines: Iterable[T], what: str, total: int | None) -> Iterator[T]:
    """The same lines, with a bar on stderr if somebody looks on."""
    with terminal.bar(what, total) as advance:
        for number, line in enumerate(lines, 1):
            yield line
            advance(number)
