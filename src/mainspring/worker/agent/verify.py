"""Check whether this worker can run an assignment (PLC-7), before it confirms it.

A refusal concerns the abilities of the worker, and keeps all tasks of that shape away from it. What only one task
lacks, such as its directory, fails that attempt when it starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache, partial

import msgspec

from mainspring.core.work.isolation import ISOLATION_LABEL, Isolation
from mainspring.core.work.work import HANDLER_LABEL, ServedFunction, Work, read_work
from mainspring.protocol.wire import Assignment, Offer

_MAX_CACHED_WORKS = 4_096
"""Tasks of one job have the same text, which is parsed once."""


class Verifier:
    """Checks assignments against this worker's resources and labels, which include its handlers."""

    def __init__(self, offer: Offer, labels: Iterable[str] = ()) -> None:
        self._labels = frozenset(labels)
        self._read = lru_cache(_MAX_CACHED_WORKS)(_read)
        self._exceeded_resource = lru_cache(_MAX_CACHED_WORKS)(partial(_exceeded_resource, offer))

    def __call__(self, assignment: Assignment, needs: Offer) -> str:
        """Return why the assignment can't run here with these resources; empty if it can."""
        short = self._exceeded_resource(needs)
        if short:
            return f"requests more {short} than this worker offers"
        work = self._read(assignment.work)
        if work is None:
            return ""
        if isinstance(work, str):
            return work
        if isinstance(work, ServedFunction) and f"{HANDLER_LABEL}{work.handler}" not in self._labels:
            return f"this worker does not serve handler {work.handler}"
        if work.isolation not in (None, Isolation.NONE) and f"{ISOLATION_LABEL}{work.isolation}" not in self._labels:
            return f"this worker does not offer isolation {work.isolation}"
        return ""


def _exceeded_resource(offer: Offer, needs: Offer) -> str:
    return next((name for name in Offer.__struct_fields__ if getattr(needs, name) > getattr(offer, name)), "")


def _read(text: str) -> Work | str | None:
    """Parse the work, or return why it is invalid."""
    try:
        return read_work(text)
    except (msgspec.DecodeError, ValueError) as error:
        return f"invalid work: {error}"
