"""Messages of the diagnoses of tasks (OBS-1), and the names of gates.

A verdict is one sentence about one task. It names no other tenant's work, so that every principal that may see the task
may read it: blockers are listed beside it (`Blocker`), for principals that may see their tenant.

If you add a reason, its message is here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.explain.diagnosis import MAX_NAMED
from mainspring.core.explain.diagnosis_report import format_clock, format_relative
from mainspring.core.fairness.freezes import FreezeRow
from mainspring.core.limits.concurrency_groups import GroupRow
from mainspring.core.model.resources import NAMES, Resources, format_amount
from mainspring.core.model.task import Priority
from mainspring.core.text.durations import format_seconds
from mainspring.core.text.sentences import count_of, join_words

UPSTREAM, DUE, FROZEN, PAUSED = "upstream", "due", "freeze", "pause"
POLICY, STORE, CIRCUIT, FAILURES = "pool policy", "scheduler", "circuit breaker", "failure budget"
QUOTA, GROUPS, MATCH, SIZE = "tenant quota", "groups", "matching worker", "worker size"
PIECE, PRIORITY, SHARE, CAPACITY = "fragmentation", "priority", "fair share", "capacity"
QUEUED_GATES = (
    UPSTREAM, DUE, FROZEN, PAUSED, POLICY, STORE, CIRCUIT, FAILURES, QUOTA, GROUPS, MATCH, SIZE, PIECE, PRIORITY, SHARE,
    CAPACITY,
)  # fmt: skip
"""The gates of a queued task, in the scheduler's order."""
RULED_OUT = {
    PAUSED: "nothing is frozen or paused",
    QUOTA: "not the quota of its tenant",
    SIZE: "eligible workers are available",
    PRIORITY: "no task of higher priority is ahead",
    SHARE: "no other tenant goes first",
}
"""What is not the cause, if the gate is passed."""
NOT_THE_CODE = "not your code: it has not started"
NOT_THE_QUEUE = "not the queue: it has a worker"
WORKER_ANSWERS = "its worker responds"
MAY_COME_BACK, _NEVER = "workers may still reconnect", "it will never start"


def list_some(names: Sequence[str], count: int | None = None) -> str:
    """The first of these names, and how many more there are."""
    total = len(names) if count is None else count
    named = ", ".join(names[:MAX_NAMED])
    more = total - min(len(names), MAX_NAMED)
    return f"{named} and {more:,} more" if more > 0 else named


# rules


def frozen(row: FreezeRow, now: datetime) -> str:
    """A freeze applies."""
    scope = f"{row.kind} {row.subject}" if row.subject else "everything"
    why = f' ("{row.why}")' if row.why else ""
    ends = "until it is unfrozen" if row.until is None else f"until {format_clock(row.until, now)}"
    return f"{row.by} froze {scope} at {format_clock(row.since, now)}{why}; no new tasks start {ends}"


def paused(why: str) -> str:
    """The task's run is paused."""
    return f"Its run is paused ({why}); nothing more of it starts until it is resumed"


def held(why: str) -> str:
    """The task's run was held by a fault at intake."""
    return f"Its run is held ({why}); nothing more of it starts until the fault is fixed and the run resumed"


def stopped(why: str) -> str:
    """The task's run is ending, and the task is about to be cancelled."""
    return f"Will never start: its run is ending ({why}); the task is about to be cancelled"


def forbidden(why: str) -> str:
    """A policy keeps it out of the pool."""
    return f"Will never start here: {why}"


def store_is_slow(priority: Priority) -> str:
    """Less important work waits for a slow store."""
    return f"The store is slow; {priority.name} and below are not dispatched until it recovers"


def behind(seconds: float) -> str:
    """The state is stale."""
    return f"The scheduler is {format_seconds(seconds)} behind; the cause is unknown until it catches up"


def unknown(seconds: float) -> str:
    """No known gate keeps the task from starting."""
    return f"Not dispatched for {format_seconds(seconds)}, and the scheduler has no record of a cause"


def faulty() -> str:
    """Placing such tasks raised an error. The error may name other tenants, and is in the server's log."""
    return "Placing tasks like this one failed with an internal error (see the server's log); the cause is unknown"


def circuit_of_job(job: str, because: str, probe_at: datetime, now: datetime, failure: str = "") -> str:
    """The circuit breaker of its job is open; `failure` is the error of its own last attempt."""
    own = f"; its own last attempt failed ({failure})" if failure else ""
    return f"The circuit breaker of {job} is open ({because}){own}; a probe {format_relative(probe_at, now)} decides"


def circuit_of_signature(summary: str, due_at: datetime, now: datetime) -> str:
    """The circuit breaker of its failure signature is open."""
    return (
        f"Retries are on hold: many tasks failed the same way ({summary}); next attempt {format_relative(due_at, now)}"
    )


def throttled(tenant: str, why: str) -> str:
    """The failure budget of its tenant is used up."""
    return f"{tenant} is throttled to a few tasks at a time: {why}"


def over_quota(tenant: str, why: str, soonest: str) -> str:
    """The task's tenant is at its quota; `soonest` is the task of the tenant that should finish first."""
    return f"{tenant} is at its quota: {why}{f'; first to finish: {soonest}' if soonest else ''}"


def behind_one_over_quota(tenant: str, first: str, why: str) -> str:
    """An older task of its tenant exceeds the quota, and goes first."""
    return f"{tenant} has no quota left for {first}, which is older and goes first: {why}"


def beyond_quota(tenant: str, wants: str, why: str) -> str:
    """The request alone exceeds the quota of its tenant."""
    return f"Will never start: it needs {wants}, more than the whole quota of {tenant} ({why})"


def group_is_full(group: GroupRow, used: int, granted: int, holders: Sequence[str], count: int) -> str:
    """The task's concurrency group is full; `granted` is the pool's share of the limit."""
    held = f"; held by {list_some(holders, count)}" if holders else ""
    if used < group.most and granted < group.most:
        return f"Group {group.name} allows {group.most} at a time; this pool's share of {granted} is in use{held}"
    return f"Group {group.name} allows {group.most} at a time, and {used} {'is' if used == 1 else 'are'} running{held}"


def rate_is_used(group: GroupRow, more_at: datetime | None, now: datetime) -> str:
    """The task's rate group is used up."""
    then = "more is requested" if more_at is None else f"next start {format_relative(more_at, now)}"
    return f"Group {group.name} allows {group.most} starts every {format_seconds(group.per_seconds or 0)}; {then}"


# workers


def no_worker_at_all(pool: str) -> str:
    """The pool has no workers."""
    return f"Pool {pool} has no workers; it starts once one connects"


def offered_until(worker: str, until: datetime, now: datetime) -> str:
    """A matching worker left recently."""
    return f"{worker} offered it until {format_clock(until, now)} and may reconnect"


def no_such_worker(lacks: str, similar: str, arrival: str) -> str:
    """No worker matches the task's constraints; `arrival` says why one may come back."""
    also = f" ({similar})" if similar else ""
    return f"No worker offers {lacks}{also}; {arrival or _NEVER}"


def only_away(lacks: str, workers: Sequence[str], count: int) -> str:
    """All matching workers are unavailable."""
    if count == 1:
        return f"The only worker that offers {lacks} is unavailable: {list_some(workers, count)}"
    return f"All {count:,} workers that offer {lacks} are unavailable: {list_some(workers, count)}"


def too_big(needs: str, largest: str, arrival: str) -> str:
    """The task would fit no worker, even idle; without `largest`: each resource would fit one, but not all together."""
    has = f"the largest matching worker has {largest}" if largest else "no matching worker has all of that"
    return f"Needs {needs}, but {has}; {arrival or _NEVER}"


def fragmented(needs: Resources, free: Resources, most: Resources, *, is_all: bool) -> str:
    """There is enough capacity, but not on one worker."""
    scarce = [name for name in NAMES if getattr(needs, name) > getattr(most, name)]
    scarce = scarce or [name for name in NAMES if getattr(needs, name)]
    total, one, wanted = (
        join_words([format_amount(name, getattr(part, name)) for name in scarce]) for part in (free, most, needs)
    )
    return f"{total if is_all else f'At least {total}'} free in total, but at most {one} on one worker; needs {wanted}"


def reserved(worker: str, why: str) -> str:
    """Capacity is reserved for it, and not free yet."""
    return f"Capacity is reserved for it on {worker} ({why}); it starts when enough is free"


def reserved_for_others(count: int, *, more_important: bool) -> str:
    """Free capacity is reserved for other tasks."""
    whom = "tasks of higher priority" if more_important else "tasks that have waited longer"
    return f"Free capacity on {count_of(count, 'worker')} is reserved for {whom}"


def anti_affinity(names: Sequence[str]) -> str:
    """Anti-affinity keeps it from every matching worker."""
    return f"Anti-affinity: every matching worker runs {list_some(names)} of its run"


def behind_priority(count: int, own: Priority, *, is_all: bool) -> str:
    """Tasks of higher priority go first."""
    tasks = count_of(count, "task") if is_all else f"At least {count_of(count, 'task')}"
    return f"{tasks} of higher priority {'goes' if count == 1 else 'go'} before it ({own.name})"


def behind_share(tenant: str, part: float, other_part: float, *, guaranteed: bool) -> str:
    """Another tenant goes first."""
    if guaranteed:
        return f"{tenant} is at {part:.0%} of its fair share; a tenant within its guarantee goes first"
    return f"{tenant} is at {part:.0%} of its fair share; a tenant at {other_part:.0%} goes first"


def no_free_capacity(free: str, ahead: int, own: Priority, next_seconds: float | None) -> str:
    """All matching workers are full; `free` is the free part of the scarce resource."""
    before = f"; {count_of(ahead, 'task')} ahead at {own.name}" if ahead else ""
    soon = "" if next_seconds is None else f"; next capacity in ~{format_seconds(next_seconds)}"
    return f"{free} free{before}{soon}"


def is_next() -> str:
    """Nothing blocks the task."""
    return "It is next: it starts in the scheduler's next turn"


def preempted(at: datetime, ran_seconds: float | None, *, saved: bool, place: int, now: datetime) -> str:
    """The task was preempted, and waits again."""
    ran = "" if ran_seconds is None else f" after running {format_seconds(ran_seconds)}"
    kept = "" if ran_seconds is None else ", checkpoint kept" if saved else ", no checkpoint"
    return f"Preempted for another task at {format_clock(at, now)}{ran}{kept}; queued again, {_ordinal(place)}"


def _ordinal(place: int) -> str:
    tens, ones = divmod(place, 10)
    ending = {1: "st", 2: "nd", 3: "rd"}.get(ones, "th") if tens % 10 != 1 else "th"
    return f"{place:,}{ending} in its queue"


# before the queue


def waiting_for_upstream(waits: int, total: int, names: Sequence[str]) -> str:
    """Upstream tasks have not finished."""
    of = f" of {total:,}" if total > waits else ""
    return f"Waiting for {waits:,}{of} upstream task{'' if total == 1 else 's'}: {list_some(names, waits)}"


def about_to_be_ready() -> str:
    """All upstream tasks have ended, and readiness has not been decided yet."""
    return "All its upstream tasks have ended; it becomes ready as its run is processed"


def never_ready(because: str, ended_at: datetime | None, now: datetime) -> str:
    """An upstream task has not succeeded."""
    when = "" if ended_at is None else f" at {format_clock(ended_at, now)}"
    return f"Will never start: {because}{when}; retry that task to continue"


def waiting_until(due_at: datetime, because: str, now: datetime) -> str:
    """The task is not due."""
    why = f" ({because})" if because else ""
    return f"Due at {format_clock(due_at, now)} ({format_relative(due_at, now)}){why}"


def waiting_for_retry(tries: int, most: int, failure: str, due_at: datetime, now: datetime) -> str:
    """The task failed, and will be retried."""
    of = f" of {most}" if most > tries else ""
    return f"Attempt {tries} failed ({failure}); attempt {tries + 1}{of} {format_relative(due_at, now)}"


# quarantined


def quarantined(failure: str, workers: Sequence[str], *, lost: bool) -> str:
    """The task is held until a person clears it."""
    how = "Lost with" if lost else "Failed the same way on"
    where = f"{how} {count_of(len(workers), 'worker')}" if workers else "Quarantined"
    return f"{where} ({failure}); held until it is cleared"


# on a worker


def starting(worker: str, seconds: float) -> str:
    """The task was assigned a moment ago."""
    return f"Assigned to {worker} {format_seconds(seconds)} ago; its process is starting"


def starting_slowly(worker: str, seconds: float, *, received: bool, limit_seconds: float) -> str:
    """A worker has it and does not start it."""
    if received:
        return f"Assigned to {worker} {format_seconds(seconds)} ago and received, but not started"
    return (
        f"Assigned to {worker} {format_seconds(seconds)} ago, not acknowledged; "
        f"it is requeued after {format_seconds(limit_seconds)}"
    )


def behind_in_group(worker: str, before: int) -> str:
    """The task shares a lease with tasks that run first."""
    return f"Assigned to {worker}, behind {count_of(before, 'task')} of the same lease"


def worker_is_silent(worker: str, seconds: float, lost_in_seconds: float, again: str) -> str:
    """The task's worker has missed heartbeats."""
    return (
        f"No heartbeat from {worker} for {format_seconds(seconds)}; "
        f"after another {format_seconds(lost_in_seconds)} it counts as lost, and the task {again}"
    )


def worker_gone(worker: str) -> str:
    """The task's worker is not known any more."""
    return f"{worker or 'Its worker'} is gone; the task is about to be requeued"


def being_stopped(why: str, kill_at: datetime, now: datetime) -> str:
    """The task is being stopped."""
    return f"Stopping ({why}); killed at {format_clock(kill_at, now)} unless it ends before"


def being_preempted(kill_at: datetime, now: datetime) -> str:
    """The task is being preempted."""
    return f"Being preempted for another task; requeued by {format_clock(kill_at, now)}"


def runs(worker: str, seconds: float, usual: float | None, progress: str) -> str:
    """The task runs as usual."""
    often = "" if usual is None else f", usually {format_seconds(usual)}"
    return f"Running on {worker} for {format_seconds(seconds)}{often}{progress}"


def runs_slowly(seconds: float, usual: float | None, progress: str) -> str:
    """The task takes longer than usual."""
    often = "longer than expected" if usual is None else f"usually {format_seconds(usual)}"
    return f"Running {format_seconds(seconds)}, {often}{progress or '; no progress reported'}"


def stuck(seconds: float, highest: float | None, silent: float) -> str:
    """The task makes no progress."""
    often = "" if highest is None else f", rarely more than {format_seconds(highest)}"
    return (
        f"Running {format_seconds(seconds)}{often}; no progress for {format_seconds(silent)} "
        f"while its worker responds: "
        "probably hung, not slow"
    )


def format_progress(percent: float | None, note: str) -> str:
    """The task's progress, as the end of a sentence."""
    said = f"{percent:.0f} %" if percent is not None else note
    return f", still making progress ({said})" if said else ""
