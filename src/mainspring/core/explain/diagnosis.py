"""Diagnosis (OBS-1): why a task, run, job or schedule is waiting.

Its fields are the seven lines of a diagnosis, in reading order: verdict, expected start, gates, blockers, what is ruled
out, suggestions, freshness. A leader makes it from the state that it decides by (`shard/explain/diagnose.py`); where no
leader answers, it is made of rows and marked as such, without suggestions.

If you add a reason:

1. Here, and in `_NEEDS_ACTION` if a person has to act. Its messages are in `core/explain/messages.py`.
2. Where it is found: `shard/explain/pending_tasks.py`, `queued_tasks.py` (checks by rules or by capacity) or
   `running_tasks.py`; a gate of queued tasks also in `QUEUED_GATES`. Its suggestions are in `shard/explain/advice.py`.
3. A situation that has it in `tests/shard/` (`test_diagnosis_of_*.py`, `test_rule_checks.py` or
   `test_capacity_checks.py`), its suggestions in `tests/shard/advice_cases.py`, its line in
   docs/reference/diagnosis.md, and `make golden`.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from mainspring.core.model.task import Priority

MAX_NAMED = 10
"""How many blockers and upstreams are named; all are counted."""
STALE_SECONDS = 10.0
"""State older than this is no ground for suggestions."""
BY_LEADER, BY_ROWS = "leader", "rows"


class Reason(StrEnum):
    """Code of what something waits for, or why it does not end."""

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


_NEEDS_ACTION = frozenset(
    {
        Reason.DEPENDENCY_NOT_READY, Reason.NO_MATCHING_WORKER, Reason.TOO_BIG, Reason.FROZEN, Reason.PAUSED,
        Reason.QUARANTINED, Reason.STARTING_SLOW, Reason.STUCK, Reason.SCHEDULER_LAG, Reason.UNKNOWN,
    }
)  # fmt: skip
_FAILED = frozenset({"FAILED", "TIMED_OUT", "PARTIAL"})


class ExpectedKind(StrEnum):
    """Kind of forecast of a start."""

    RANGE = "range"
    UNKNOWN = "unknown"
    NEVER = "never"


class Expected(msgspec.Struct, frozen=True):
    """When something is expected to start."""

    kind: ExpectedKind
    basis: str
    """What the range is based on, why the start is unknown, or why it will never start."""
    earliest: datetime | None = None
    latest: datetime | None = None

    @classmethod
    def never(cls, basis: str) -> Expected:
        """Forecast that the task will never start."""
        return cls(ExpectedKind.NEVER, basis)

    @classmethod
    def unknown(cls, basis: str) -> Expected:
        """Forecast an unknown start."""
        return cls(ExpectedKind.UNKNOWN, basis)

    @classmethod
    def between(cls, earliest: datetime, latest: datetime, basis: str) -> Expected:
        """Forecast a start within this range."""
        return cls(ExpectedKind.RANGE, basis, earliest, latest)

    @classmethod
    def at(cls, instant: datetime, basis: str) -> Expected:
        """Forecast a start at this instant."""
        return cls.between(instant, instant, basis)


class GateState(StrEnum):
    """State of a gate."""

    YES = "passed"
    HOLDS = "holding"
    NOT_REACHED = "not reached"


class Gate(msgspec.Struct, frozen=True):
    """A condition for a task to start, in the scheduler's order."""

    name: str
    passed: GateState
    says: str = ""
    """Numbers; empty if there are none."""


class Blocker(msgspec.Struct, frozen=True):
    """A task, run, person or other object that stands in the way."""

    kind: str
    """`task`, `run`, `job`, `tenant`, `worker`, `group`, `person` or `event`."""
    id: str
    says: str
    tenant: str | None = None
    """Its tenant; `id` and `says` are shown only to principals that may see that tenant."""
    priority: Priority | None = None


class SuggestionKind(StrEnum):
    """Kind of suggestion, by the person who has to act."""

    WAIT = "wait"
    CHANGE = "change"
    ASK = "ask"
    """An operator."""


class Suggestion(msgspec.Struct, frozen=True, kw_only=True):
    """A suggestion, which changes the verdict as described in `effect`."""

    kind: SuggestionKind
    says: str
    command: str = ""
    """As it can be typed; empty if there is none."""
    effect: str = ""
    """The result, from the scheduler's own rules on a copy; empty for waiting if a start is expected."""

    @classmethod
    def wait(cls, says: str = "Wait", command: str = "", effect: str = "") -> Suggestion:
        """Suggest to wait."""
        return cls(kind=SuggestionKind.WAIT, says=says, command=command, effect=effect)

    @classmethod
    def change(cls, says: str, command: str = "", effect: str = "") -> Suggestion:
        """Suggest a change that the owner can make."""
        return cls(kind=SuggestionKind.CHANGE, says=says, command=command, effect=effect)

    @classmethod
    def ask(cls, says: str, command: str = "", effect: str = "") -> Suggestion:
        """Suggest a change that an operator has to make."""
        return cls(kind=SuggestionKind.ASK, says=says, command=command, effect=effect)


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The complete answer about one task, run, schedule or job."""

    subject: str
    """The id that was asked about."""
    name: str
    """Display name: `tenant/job/task`, or `tenant/schedule`."""
    tenant: str
    state: str
    since: datetime | None
    """When it entered its state."""
    reason: Reason | None
    """None: nothing blocks it."""
    verdict: str
    """One sentence."""
    at: datetime
    """When the diagnosis was made."""
    by: str
    """`leader`, or `rows` if no leader answered."""
    age_seconds: float
    """Age of the state that it is based on."""
    batch: int | None = None
    """The number of the leader's last batch."""
    run: str | None = None
    task: str | None = None
    pool: str | None = None
    priority: Priority | None = None
    expected: Expected | None = None
    """None: it has started or ended."""
    gates: tuple[Gate, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    more_blockers: int = 0
    """How many more blockers there are than are named."""
    ruled_out: tuple[str, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    """Empty if the state is stale or nothing known would help."""
    numbers: dict[str, float] = {}
    """The numbers of the messages: `ahead`, `free_slots`, `usual_seconds`, ..."""

    def is_stale(self) -> bool:
        """Return whether the state that it is based on is too old to act on."""
        return self.age_seconds > STALE_SECONDS

    def is_problem(self) -> bool:
        """Return whether it needs an action: it does not continue without one, or has failed."""
        is_never = self.expected is not None and self.expected.kind is ExpectedKind.NEVER
        return is_never or self.reason in _NEEDS_ACTION or (self.reason is None and self.state in _FAILED)


class WaitingSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How many tasks of a pool wait for one reason."""

    reason: Reason
    tasks: int
    oldest: datetime | None
    example: str
    """Id of the task that has waited longest."""
    says: str
    """Its verdict."""
