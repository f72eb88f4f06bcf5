"""Handlers of our worker. A copy of this file is beside the marks file: its processes get no environment variables."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.marks import Marks
from mainspring import task

_MARKS = Marks(Path(__file__).with_name("marks"))


@task
def noop(number: int) -> None:
    """Record the start."""
    _MARKS.set(number)


@task
def noop_from(first: int, number: int) -> None:
    """The same for one task of a sequence."""
    _MARKS.set(first + number)
