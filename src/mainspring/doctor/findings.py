"""One health check: its code, its finding with numbers, and advice if it failed.

Questions are worded so that "yes" is good.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec


class Answer(StrEnum):
    """Result of a check."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "cannot say"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A question and its finding."""

    code: str
    """Stable code, `check.finding`: `store.slow`. The finding of a check that passed is `ok`, or `unknown`."""

    topic: str
    """The section of the runbook."""
    question: str
    answer: Answer
    finding: str
    """What was found, with numbers."""
    advice: str = ""
    """What to do; empty if nothing."""
    command: str = ""
    """A command to run; empty if none."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Result of all checks."""

    server: str
    version: str | None
    """Version of the server; None if it did not answer."""
    at: datetime
    problems: int
    checks: list[Check]
    is_reached: bool = True
    """A server answered."""


class Topic:
    """Creates the checks of one topic."""

    def __init__(self, name: str) -> None:
        self._name = name

    def yes(self, check: str, question: str, finding: str) -> Check:
        """Return a check that passed; its code is `check.ok`."""
        return Check(code=f"{check}.ok", topic=self._name, question=question, answer=Answer.YES, finding=finding)

    def no(self, code: str, question: str, finding: str, advice: str, command: str = "") -> Check:
        """Return a check that failed, with its full code and what to do."""
        return Check(
            code=code, topic=self._name, question=question, answer=Answer.NO, finding=finding, advice=advice,
            command=command,
        )  # fmt: skip

    def unknown(self, check: str, question: str, finding: str) -> Check:
        """Return a check that could not run, and why; its code is `check.unknown`."""
        return Check(
            code=f"{check}.unknown", topic=self._name, question=question, answer=Answer.UNKNOWN, finding=finding
        )


def format_list(names: list[str], most: int = 3) -> str:
    """Join the first names, and count the others: `a, b, c and 2 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def format_count(count: int, one: str, many: str = "") -> str:
    """Format a count with its noun: `1 pool`, `3 pools`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
