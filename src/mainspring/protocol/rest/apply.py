"""What the HTTP API takes and answers when many definitions are put at once: those of a folder, or of a deployment.

The conventions are those of `runs.py`. Each item is a deed of its own: one that is refused does not touch the others.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from mainspring.protocol.rest.runs import Problem, View, Wish

MOST_ITEMS = 1_000
MOST_SCHEDULES = 10
Instant = Annotated[datetime, msgspec.Meta(tz=True)]


class WantedSchedule(Wish, frozen=True, kw_only=True):
    """A schedule of an item."""

    definition: msgspec.Raw
    """A `ScheduleSpec`."""
    since: Instant | None = None
    """If it is new: windows after this instant count as missed."""
    paused: bool = False
    """If it is new: nothing of it is planned until somebody resumes it."""


class ApplyItem(Wish, frozen=True, kw_only=True):
    """A job, and the schedules that are for it."""

    job: msgspec.Raw
    """A `JobSpec`."""
    schedules: Annotated[list[WantedSchedule], msgspec.Meta(max_length=MOST_SCHEDULES)] = msgspec.field(
        default_factory=list
    )
    tenant: str | None = None


class ApplyRequest(Wish, frozen=True, kw_only=True):
    """A wish that these are as they are said here. What else there is stays as it is."""

    items: Annotated[list[ApplyItem], msgspec.Meta(max_length=MOST_ITEMS)]
    dry_run: bool = False
    """Only say what would change."""
    why: str = ""


class AppliedSchedule(View, frozen=True, kw_only=True):
    """What became of a schedule of an item."""

    name: str
    id: str | None
    """None in a dry run, for one that would be made."""
    change: str
    """`created`, `updated` or `unchanged`."""


class ApplyLine(View, frozen=True, kw_only=True, omit_defaults=True):
    """What became of an item, in the order of the items."""

    number: int
    """Of the item, from 0."""
    job: str
    change: str = ""
    """Of the job: `created`, `updated` or `unchanged`; empty if it was refused."""
    version: int = 0
    """Of the job."""
    schedules: list[AppliedSchedule] = msgspec.field(default_factory=list)
    problem: Problem | None = None
    """Why it was refused. Its paths begin in the item: `job.tasks[0]`, `schedules[0].definition.trigger`."""
