"""The functions that our worker serves. A copy of this file stands beside the marks: its processes see no variables."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.marks import Marks
from mainspring import task

_MARKS = Marks(Path(__file__).with_name("marks"))


@task
def noop(number: int) -> None:
    """Says that it has begun."""
    _MARKS.set(number)


@task
def noop_from(first: int, number: int) -> None:
    """The same for one of several tasks that are numbered together."""
    _MARKS.set(first + number)
