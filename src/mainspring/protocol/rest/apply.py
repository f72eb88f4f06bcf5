"""REST types for applying many definitions at once: those of a folder, or of a deployment.

The conventions are those of `runs.py`. Each item is applied separately: a refused item does not affect the others.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from mainspring.protocol.rest.runs import Problem, RequestBody, View
from mainspring.protocol.rest.schedules import Instant

MAX_ITEMS = 1_000
MAX_SCHEDULES = 10


class ScheduleItem(RequestBody, frozen=True, kw_only=True):
    """A schedule of an item."""

    definition: msgspec.Raw
    """A `ScheduleSpec`."""
    since: Instant | None = None
    """For a new schedule: windows after this instant count as missed."""
    paused: bool = False
    """For a new schedule: created paused."""


class ApplyItem(RequestBody, frozen=True, kw_only=True):
    """A job and its schedules."""

    job: msgspec.Raw
    """A `JobSpec`."""
    schedules: Annotated[list[ScheduleItem], msgspec.Meta(max_length=MAX_SCHEDULES)] = msgspec.field(
        default_factory=list
    )
    tenant: str | None = None


class ApplyRequest(RequestBody, frozen=True, kw_only=True):
    """Create or update these definitions. Others are left unchanged."""

    items: Annotated[list[ApplyItem], msgspec.Meta(max_length=MAX_ITEMS)]
    dry_run: bool = False
    """Only report what would change."""
    why: str = ""


class AppliedSchedule(View, frozen=True, kw_only=True):
    """Result for a schedule of an item."""

    name: str
    id: str | None
    """None in a dry run, for a schedule that would be created."""
    change: str
    """`created`, `updated` or `unchanged`."""


class ApplyItemResult(View, frozen=True, kw_only=True, omit_defaults=True):
    """Result for an item, in the order of the items."""

    number: int
    """Index of the item, from 0."""
    job: str
    change: str = ""
    """Of the job: `created`, `updated` or `unchanged`; empty if it was refused."""
    version: int = 0
    """Of the job."""
    schedules: list[AppliedSchedule] = msgspec.field(default_factory=list)
    problem: Problem | None = None
    """Why it was refused. Paths are relative to the item: `job.tasks[0]`, `schedules[0].definition.trigger`."""
