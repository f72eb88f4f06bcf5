"""Helpers of the routes for sharing rules: limits, lists from memory, deletion.

Rules are few stored rows: `services.rules` caches all of them. A route that changes one refreshes the cache, so that
this server applies it immediately.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from itertools import islice
from typing import TypeVar

from mainspring.api.services import Services
from mainspring.api.submission.actions import MAX_REASON_LENGTH
from mainspring.api.views import run_views
from mainspring.core.admission.validate_job import Faults, check_seconds
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.protocol.rest.runs import ActionResult, Page

MAX_NOTE_LENGTH = 4_000
MAX_SECONDS = 366 * 86_400.0
_R = TypeVar("_R")
_V = TypeVar("_V")


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


def refuse_faults(what: str, faults: Faults) -> None:
    """Raise Refused if there are faults."""
    faults.refuse(f"the {what} has")


async def until(services: Services, seconds: float | None) -> datetime | None:
    """Return the end of a duration that starts now; None without one."""
    return None if seconds is None else await services.time.now() + timedelta(seconds=seconds)


def page_in_memory(
    rows: Iterable[_R],
    view: Callable[[_R], _V],
    key: Callable[[_R], tuple[str, ...]],
    limit: int,
    cursor: str,
    *,
    parts: int = 1,
) -> Page[_V]:
    """Build a page from rows in memory, ordered by keys of `parts` parts."""
    after = tuple(run_views.read_cursor(cursor, parts))
    found = list(islice((row for row in sorted(rows, key=key) if key(row) > after), limit))
    return run_views.page(found, map(view, found), limit, key(found[-1]) if found else [])


async def delete_rule(services: Services, deletion: Awaitable[bool], entry: AuditEntry) -> ActionResult:
    """Delete a rule and refresh the cache; the attempt is audited even if there was none."""
    changed = await deletion
    if not changed:
        await services.store.record([entry])
    await services.rules.refresh()
    return ActionResult(changed=changed, detail="" if changed else "already absent")
