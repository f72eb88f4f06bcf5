"""REST types for diagnosis and what-if (OBS-1)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from mainspring.protocol.rest.runs import RequestBody, View

Changes = Annotated[tuple[Annotated[str, msgspec.Meta(max_length=200)], ...], msgspec.Meta(max_length=20)]


class ExpectedView(View, frozen=True, kw_only=True):
    """Expected start."""

    kind: str
    """`range`, `unknown` or `never`."""
    basis: str
    """Basis of the range, or why it is unknown, or why it will never start."""
    earliest: datetime | None = None
    latest: datetime | None = None


class GateView(View, frozen=True, kw_only=True):
    """A condition that must hold before a task can start."""

    name: str
    passed: str
    """`passed`, `holding` or `not reached`."""
    says: str


class BlockerView(View, frozen=True, kw_only=True):
    """Something that is ahead in the queue, or holds what the subject waits for."""

    kind: str
    """`task`, `run`, `job`, `tenant`, `worker`, `group`, `person` or `event`."""
    id: str
    says: str
    tenant: str | None = None
    priority: str | None = None


class SuggestedActionView(View, frozen=True, kw_only=True):
    """A suggested action."""

    kind: str
    """`wait`, `change`, or `ask` if it needs an operator."""
    says: str
    command: str
    """Shell command; empty if there is none."""
    effect: str
    """Predicted effect."""


class DiagnosisView(View, frozen=True, kw_only=True):
    """Why a task, run, schedule or job is waiting."""

    subject: str
    """Id of the subject."""
    name: str
    tenant: str
    state: str
    since: datetime | None
    reason: str | None
    """A code of docs/reference/diagnosis.md; null: nothing blocks it."""
    verdict: str
    is_problem: bool
    """It will not proceed without intervention."""
    expected: ExpectedView | None
    """Null: it has started or ended."""
    gates: list[GateView]
    """In the order in which the scheduler checks them."""
    blockers: list[BlockerView]
    more_blockers: int
    """Number of further blockers; those of other tenants are only counted."""
    ruled_out: list[str]
    suggestions: list[SuggestedActionView]
    """Empty if the data is stale, or if no known action would help."""
    at: datetime
    by: str
    """`leader`, or `rows` if derived from the store alone."""
    age_seconds: float
    """Age of the data."""
    is_stale: bool
    """Too old to act on."""
    batch: int | None
    """Number of the leader's last batch."""
    run_id: str | None
    task_id: str | None
    pool: str | None
    priority: str | None
    numbers: dict[str, float]
    """Numbers in the sentences."""


class WhatIfRequest(RequestBody, frozen=True, kw_only=True):
    """Hypothetical changes: `cpu 2`, `burst 8`, `one more worker of 8 cores`."""

    changes: Changes = ()


class VictimView(View, frozen=True, kw_only=True):
    """A task that would be preempted; of another tenant's, only its priority is shown."""

    task: str | None
    """Display name."""
    tenant: str | None
    priority: str
    worker: str | None


class WhatIfView(View, frozen=True, kw_only=True):
    """Forecast under the changes."""

    changes: list[str]
    starts_now: bool
    """In the scheduler's next turn, or as soon as the preempted tasks have ended."""
    worker: str | None
    """Its worker, if it starts now."""
    preempts: list[VictimView]
    expected: ExpectedView
    holds: str
    """What would still block it; empty: nothing."""
    reason: str | None
    """The same as a code."""
    notes: list[str]
    """Notes on the changes: one without effect, or one that needs another role."""
    at: datetime


class WaitingSumView(View, frozen=True, kw_only=True):
    """Number of tasks that wait for one reason."""

    reason: str
    tasks: int
    oldest: datetime | None
    """Since when the oldest one has waited."""
    example: str
    """Its id."""
    says: str
    """Its explanation."""


class QueueReasonsView(View, frozen=True, kw_only=True):
    """What the tasks of a pool wait for."""

    pool: str
    at: datetime
    reasons: list[WaitingSumView]
    """Most frequent first."""
