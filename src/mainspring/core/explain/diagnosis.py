"""Why something does not go on (OBS-1): what a diagnosis says, whoever asks and wherever it is shown.

The seven lines of a diagnosis are its fields, in the order in which they are read: verdict, expected start, gates, who
is in the way, what is ruled out, what can be done, how fresh it is. A leader makes it from what it decides by
(`shard/explain/diagnose.py`); where no leader answers, it is made of rows, says so, and gives no advice.

If you add a reason: its sentences in `core/explain/messages.py`, the situation that has it in
`tests/shard/test_diagnosis*.py` and what is advised then in `tests/shard/advice_cases.py`, its line in
docs/reference/diagnosis.md.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from mainspring.core.model.task import Priority

MOST_NAMED = 10
"""Of those that are in the way, and of upstreams: so many are named, all are counted."""
STALE_SECONDS = 10.0
"""What is known by something older than this is no ground for advice."""
BY_LEADER, BY_ROWS = "leader", "rows"


class Reason(StrEnum):
    """What something waits for, or why it does not end."""

    WAITING_UPSTREAM = "WAITING_UPSTREAM"
    WAITING_TIME = "WAITING_TIME"
    WAITING_EVENT = "WAITING_EVENT"
    WAITING_RETRY = "WAITING_RETRY"
    DEPENDENCY_NOT_READY = "DEPENDENCY_NOT_READY"
    NO_WORKER_CAPACITY = "NO_WORKER_CAPACITY"
    NO_MATCHING_WORKER = "NO_MATCHING_WORKER"
    TOO_BIG = "TOO_BIG"
    FRAGMENTED = "FRAGMENTED"
    TENANT_OVER_QUOTA = "TENANT_OVER_QUOTA"
    FAIR_SHARE = "FAIR_SHARE"
    PRIORITY_QUEUE_WAIT = "PRIORITY_QUEUE_WAIT"
    CONCURRENCY = "CONCURRENCY"
    RATE_LIMIT = "RATE_LIMIT"
    CIRCUIT_OPEN = "CIRCUIT_OPEN"
    FROZEN = "FROZEN"
    PAUSED = "PAUSED"
    QUARANTINED = "QUARANTINED"
    PREEMPTED = "PREEMPTED"
    BACKFILL_THROTTLED = "BACKFILL_THROTTLED"
    STARTING_SLOW = "STARTING_SLOW"
    WORKER_LOST = "WORKER_LOST"
    RUNNING_SLOW = "RUNNING_SLOW"
    STUCK = "STUCK"
    SCHEDULER_LAG = "SCHEDULER_LAG"
    UNKNOWN = "UNKNOWN"


_NEED_SOMEBODY = frozenset(
    {
        Reason.DEPENDENCY_NOT_READY, Reason.NO_MATCHING_WORKER, Reason.TOO_BIG, Reason.FROZEN, Reason.PAUSED,
        Reason.QUARANTINED, Reason.STARTING_SLOW, Reason.STUCK, Reason.SCHEDULER_LAG, Reason.UNKNOWN,
    }
)  # fmt: skip
_FAILED = frozenset({"FAILED", "TIMED_OUT", "PARTIAL"})


class Foresight(StrEnum):
    """What can be said of a start."""

    RANGE = "range"
    CANNOT_SAY = "cannot say"
    NEVER = "never"


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """When something is expected to start."""

    foresight: Foresight
    basis: str
    """What the range goes by, or why nothing can be said, or why it will never start."""
    earliest: datetime | None = None
    latest: datetime | None = None


class Passed(StrEnum):
    """How far something is through a gate."""

    YES = "passed"
    HOLDS = "holding"
    NOT_REACHED = "not reached"


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that has to be so before a task can start, in the scheduler's order."""

    name: str
    passed: Passed
    says: str = ""
    """With numbers; empty if there are none."""


class InTheWay(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody or something that is ahead, or holds what is waited for."""

    kind: str
    """`task`, `run`, `job`, `tenant`, `worker`, `group`, `person` or `event`."""
    id: str
    says: str
    tenant: str | None = None
    """Whose it is; only whoever sees that tenant is told `id` and `says`."""
    priority: Priority | None = None


class ActKind(StrEnum):
    """Who has to do something."""

    WAIT = "wait"
    CHANGE = "change"
    ASK = "ask"
    """An operator."""


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be done, which changes the verdict as `effect` says."""

    kind: ActKind
    says: str
    command: str = ""
    """As it can be typed; empty: there is nothing to type."""
    effect: str = ""
    """What would be then, as the scheduler's own rules say on a copy; empty for waiting if a start is expected."""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer about one task, run, schedule or job."""

    subject: str
    """The id of what was asked about."""
    name: str
    """What people call it: `tenant/job/task`, or `tenant/schedule`."""
    tenant: str
    state: str
    since: datetime | None
    """Since when it has been in its state."""
    reason: Reason | None
    """None: nothing holds it up."""
    verdict: str
    """One sentence."""
    at: datetime
    """When this was found out."""
    by: str
    """`leader`, or `rows` if no leader answered."""
    age_seconds: float
    """How old what it goes by is."""
    batch: int | None = None
    """The number of the leader's last batch."""
    run: str | None = None
    task: str | None = None
    pool: str | None = None
    priority: Priority | None = None
    expected: Expected | None = None
    """None: it has started, or is over."""
    gates: tuple[Gate, ...] = ()
    in_the_way: tuple[InTheWay, ...] = ()
    others_in_the_way: int = 0
    """How many more are in the way than are named."""
    ruled_out: tuple[str, ...] = ()
    acts: tuple[Act, ...] = ()
    """Empty if this is stale or nothing that is known would change it."""
    numbers: dict[str, float] = {}
    """What the sentences say in numbers: `ahead`, `free_slots`, `usual_seconds`, ..."""

    def is_stale(self) -> bool:
        """Whether what this goes by is too old to act on."""
        return self.age_seconds > STALE_SECONDS

    def is_problem(self) -> bool:
        """Whether it does not go on by itself, or has failed: somebody has to do something."""
        is_never = self.expected is not None and self.expected.foresight is Foresight.NEVER
        return is_never or self.reason in _NEED_SOMEBODY or (self.reason is None and self.state in _FAILED)


class WaitingSum(msgspec.Struct, frozen=True, kw_only=True):
    """How many tasks of a pool wait for one reason."""

    reason: Reason
    tasks: int
    oldest: datetime | None
    example: str
    """The id of the one that has waited longest."""
    says: str
    """Its verdict."""
