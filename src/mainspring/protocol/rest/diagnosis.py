"""What the HTTP API answers about why something does not go on, and about what would be otherwise (OBS-1)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from mainspring.protocol.rest.runs import View, Wish

Changes = Annotated[tuple[Annotated[str, msgspec.Meta(max_length=200)], ...], msgspec.Meta(max_length=20)]


class ExpectedView(View, frozen=True, kw_only=True):
    """When something is expected to start."""

    foresight: str
    """`range`, `unknown` or `never`."""
    basis: str
    """What the range goes by, or why nothing can be said, or why it will never start."""
    earliest: datetime | None = None
    latest: datetime | None = None


class GateView(View, frozen=True, kw_only=True):
    """One thing that has to be so before a task can start."""

    name: str
    passed: str
    """`passed`, `holding` or `not reached`."""
    says: str


class InTheWayView(View, frozen=True, kw_only=True):
    """Somebody or something that is ahead, or holds what is waited for."""

    kind: str
    """`task`, `run`, `job`, `tenant`, `worker`, `group`, `person` or `event`."""
    id: str
    says: str
    tenant: str | None = None
    priority: str | None = None


class ActView(View, frozen=True, kw_only=True):
    """Something that can be done."""

    kind: str
    """`wait`, `change`, or `ask` if an operator has to do it."""
    says: str
    command: str
    """As it can be typed; empty: there is nothing to type."""
    effect: str
    """What would be then."""


class DiagnosisView(View, frozen=True, kw_only=True):
    """Why a task, run, schedule or job does not go on."""

    subject: str
    """The id of what was asked about."""
    name: str
    tenant: str
    state: str
    since: datetime | None
    reason: str | None
    """A code of docs/reference/diagnosis.md; null: nothing holds it up."""
    verdict: str
    is_problem: bool
    """It does not go on by itself: somebody has to do something."""
    expected: ExpectedView | None
    """Null: it has started, or is over."""
    gates: list[GateView]
    """In the scheduler's order."""
    in_the_way: list[InTheWayView]
    others_in_the_way: int
    """How many more are in the way than are named; those of other tenants are only counted."""
    ruled_out: list[str]
    acts: list[ActView]
    """Empty if what is known is too old, or if nothing that is known would change it."""
    at: datetime
    by: str
    """`leader`, or `rows` for what the store alone says."""
    age_seconds: float
    """How old what this goes by is."""
    is_stale: bool
    """That is too old to act on."""
    batch: int | None
    """The number of the leader's last batch."""
    run_id: str | None
    task_id: str | None
    pool: str | None
    priority: str | None
    numbers: dict[str, float]
    """What the sentences say in numbers."""


class WhatIfRequest(Wish, frozen=True, kw_only=True):
    """Changes that are supposed, each in words: `cpu 2`, `burst 8`, `one more worker of 8 cores`."""

    changes: Changes = ()


class VictimView(View, frozen=True, kw_only=True):
    """A task that would have to make room; of another tenant's, only its priority is told."""

    task: str | None
    """What people call it."""
    tenant: str | None
    priority: str
    worker: str | None


class WhatIfView(View, frozen=True, kw_only=True):
    """What would be."""

    changes: list[str]
    starts_now: bool
    """In the scheduler's next turn, or as soon as those that it pushes out are gone."""
    worker: str | None
    """Where, if it starts now."""
    pushes_out: list[VictimView]
    expected: ExpectedView
    holds: str
    """What would still hold it up; empty: nothing."""
    reason: str | None
    """The same as a code."""
    remarks: list[str]
    """What is to be known of the changes themselves: one that changes nothing, or that somebody else has to allow."""
    at: datetime


class WaitingSumView(View, frozen=True, kw_only=True):
    """How many tasks wait for one reason."""

    reason: str
    tasks: int
    oldest: datetime | None
    """Since when the one has waited that has waited longest."""
    example: str
    """Its id."""
    says: str
    """What is said of it."""


class QueueReasonsView(View, frozen=True, kw_only=True):
    """What the tasks of a pool wait for."""

    pool: str
    at: datetime
    reasons: list[WaitingSumView]
    """The most frequent first."""
