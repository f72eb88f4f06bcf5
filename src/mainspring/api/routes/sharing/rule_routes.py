"""Helpers of the routes for sharing rules: limits, lists from memory, changes.

Rules are few stored rows: `SharingRulesCache` has all of them in memory. A change refreshes it, so that this server
applies the change immediately.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import TypeVar

from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.principal import Principal
from mainspring.api.http.cursors import PageRequest, read_cursor
from mainspring.api.request_components import RequestComponent
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.submission.actions import MAX_REASON_LENGTH
from mainspring.core.admission.validate_job import Faults, check_seconds
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.host.config.sharing_rules import SharingRulesCache
from mainspring.protocol.rest.runs import ActionResult, Page
from mainspring.store.ports.store import Store

MAX_NOTE_LENGTH = 4_000
MAX_SECONDS = 366 * 86_400.0
_R = TypeVar("_R")
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class RuleEditor(RequestComponent):
    """Changes of rules by the caller."""

    principal: Principal
    store: Store
    time: StoreTimeCache
    rules: SharingRulesCache
    audit: Auditor

    async def until(self, seconds: float | None) -> datetime | None:
        """Return the end of a duration that starts now; None without one."""
        return None if seconds is None else await self.time.now() + timedelta(seconds=seconds)

    async def put(self, write: Awaitable[_R]) -> _R:
        """Write a rule and refresh the cache."""
        kept = await write
        await self.rules.refresh()
        return kept

    async def delete(self, deletion: Awaitable[bool], entry: AuditEntry) -> ActionResult:
        """Delete a rule and refresh the cache; the attempt is audited even if there was none."""
        if await deletion:
            await self.rules.refresh()
            return ActionResult(changed=True)
        return await self.already_absent(entry)

    async def already_absent(self, entry: AuditEntry) -> ActionResult:
        """Audit a deletion that changed nothing."""
        await self.store.record([entry])
        await self.rules.refresh()
        return ActionResult(changed=False, detail="already absent")


def check_note(note: str, faults: Faults) -> None:
    """Check the length of a note."""
    if len(note) > MAX_NOTE_LENGTH:
        faults.add("note", f"must have at most {MAX_NOTE_LENGTH} characters")


def check_reason(why: str, faults: Faults) -> None:
    """Check the length of a reason."""
    if len(why) > MAX_REASON_LENGTH:
        faults.add("why", f"must have at most {MAX_REASON_LENGTH} characters")


def check_duration(seconds: float | None, faults: Faults) -> None:
    """Check an optional duration."""
    if seconds is not None:
        check_seconds(seconds, "seconds", faults, longest=MAX_SECONDS)


def page_in_memory(
    rows: Iterable[_R],
    view: Callable[[_R], _V],
    key: Callable[[_R], tuple[str, ...]],
    paging: PageRequest,
    *,
    parts: int = 1,
) -> Page[_V]:
    """Build a page from rows in memory, ordered by keys of `parts` parts."""
    after = tuple(read_cursor(paging.cursor, parts))
    found = list(islice((row for row in sorted(rows, key=key) if key(row) > after), paging.limit))
    return paging.page(found, view, key)
