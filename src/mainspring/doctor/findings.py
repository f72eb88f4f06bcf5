"""An answer to a question about an installation: how it is, in numbers, and what to do if it is not well.

A question is worded so that "yes" is good.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec


class Answer(StrEnum):
    """Whether it is as it should be."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "cannot say"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A question, and what was found."""

    topic: str
    """What it is about: the runbook that asks it."""
    question: str
    answer: Answer
    finding: str
    """In numbers."""
    advice: str = ""
    """What to do; empty if there is nothing to do."""
    command: str = ""
    """As it can be typed; empty: there is nothing to type."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All that was asked."""

    server: str
    version: str | None
    """The server's; None if it did not answer."""
    at: datetime
    problems: int
    checks: list[Check]
    is_reached: bool = True
    """A server answered."""


class Topic:
    """Makes the answers of one topic."""

    def __init__(self, name: str) -> None:
        self._name = name

    def yes(self, question: str, finding: str) -> Check:
        """It is as it should be."""
        return Check(topic=self._name, question=question, answer=Answer.YES, finding=finding)

    def no(self, question: str, finding: str, advice: str, command: str = "") -> Check:
        """It is not, and this is what to do."""
        return Check(
            topic=self._name, question=question, answer=Answer.NO, finding=finding, advice=advice, command=command
        )

    def unknown(self, question: str, finding: str) -> Check:
        """Nobody can say, and why."""
        return Check(topic=self._name, question=question, answer=Answer.UNKNOWN, finding=finding)


def say_some(names: list[str], most: int = 3) -> str:
    """Names in a sentence: the first few, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def say_number(count: int, one: str, many: str = "") -> str:
    """How many of something: `1 pool`, `3 pools`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
