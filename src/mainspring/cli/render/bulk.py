"""Outcomes of bulk submissions, with a progress bar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import rich_click as click

from mainspring.cli.options import Printing
from mainspring.cli.render import terminal
from mainspring.cli.render.output import print_rows
from mainspring.cli.render.tables import BULK
from mainspring.protocol.rest.runs import BulkItemResult

T = TypeVar("T")

_MAX_SHOWN = 20
"""Maximum number of problems in a table."""


def print_bulk(lines: Iterable[BulkItemResult], total: int | None, printing: Printing) -> bool:
    """Print the outcome of each run, or in tables a summary and the first problems. Return whether all succeeded."""
    counted = _Counted(with_progress_bar(lines, "submitting", total))
    if printing.is_human_readable:
        problems = [line for line in counted if line.problem is not None]
        click.echo(f"{counted.taken} of {counted.all} runs submitted")
        if problems:
            print_rows(problems[:_MAX_SHOWN], BULK, printing)
    else:
        print_rows(counted, BULK, printing)
    return counted.taken == counted.all


class _Counted:
    """An iterator of lines that counts them."""

    def __init__(self, lines: Iterable[BulkItemResult]) -> None:
        self._lines = lines
        self.all = 0
        self.taken = 0

    def __iter__(self) -> Iterator[BulkItemResult]:
        for line in self._lines:
            self.all += 1
            self.taken += line.problem is None
            yield line


def with_progress_bar(lines: Iterable[T], what: str, total: int | None) -> Iterator[T]:
    """Pass lines through, with a progress bar on stderr if it is a terminal."""
    with terminal.progress_bar(what, total) as advance:
        for number, line in enumerate(lines, 1):
            yield line
            advance(number)
