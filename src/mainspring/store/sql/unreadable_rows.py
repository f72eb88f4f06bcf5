"""Rows that can't be read: written by hand, or by a release to come. Each one is counted, and logged once.

Where rows are read one by one (`Codec.readable`), such a row stays where it is, and the others are used.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Mapping

import structlog

log = structlog.get_logger()

MAX_REMEMBERED = 10_000


class UnreadableRows:
    """The unreadable rows that one process has met."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """By kind: how often a row could not be read. A pass that meets the same row again counts it again."""
        self._logged: OrderedDict[str, None] = OrderedDict()

    def count(self, kind: str) -> None:
        """A row could not be read."""
        self.counts[kind] += 1

    def log(self, kind: str, faults: Mapping[str, str]) -> None:
        """Log rows that were left out, by their keys: each once for as long as the same is wrong with it."""
        for key, fault in faults.items():
            if fault not in self._logged:
                self._logged[fault] = None
                log.error("row.unreadable", kind=kind, key=key, fault=fault)
        while len(self._logged) > MAX_REMEMBERED:
            self._logged.popitem(last=False)


UNREADABLE = UnreadableRows()
"""Those of this process."""


def kind_of(struct: type) -> str:
    """How rows of a struct are called: `ScheduleRow` is `schedule`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", struct.__name__).lower().removesuffix("_row")
