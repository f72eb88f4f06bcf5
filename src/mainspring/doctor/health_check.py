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


class Question(msgspec.Struct, frozen=True):
    """A question, to be answered by one check."""

    topic: str
    check: str
    """Begins the codes of its answers."""
    text: str

    def yes(self, finding: str) -> Check:
        """Return a check that passed; its code is `check.ok`."""
        return self._answer(f"{self.check}.ok", Answer.YES, finding)

    def no(self, code: str, finding: str, advice: str, command: str = "") -> Check:
        """Return a check that failed, with its full code and what to do."""
        return self._answer(code, Answer.NO, finding, advice, command)

    def unknown(self, finding: str) -> Check:
        """Return a check that could not run, and why; its code is `check.unknown`."""
        return self._answer(f"{self.check}.unknown", Answer.UNKNOWN, finding)

    def _answer(self, code: str, answer: Answer, finding: str, advice: str = "", command: str = "") -> Check:
        return Check(
            code=code, topic=self.topic, question=self.text, answer=answer, finding=finding,
            advice=advice, command=command,
        )  # fmt: skip


def format_list(names: list[str], most: int = 3) -> str:
    """Join the first names, and count the others: `a, b, c and 2 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def format_count(count: int, one: str, many: str = "") -> str:
    """Format a count with its noun: `1 pool`, `3 pools`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
