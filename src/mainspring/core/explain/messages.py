"""The sentences of diagnoses (OBS-1), and the names of the gates that they speak of.

A verdict is one sentence about one task. It names nobody of another tenant, so that whoever may see the task may read
it: who is in the way is told beside it (`InTheWay`), to those who see that tenant.

If you add a reason, its sentence is here or in `core/explain/messages_running.py`, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.explain.diagnosis import MOST_NAMED
from mainspring.core.explain.diagnosis_report import say_clock, say_in
from mainspring.core.limits.concurrency_groups import GroupRow
from mainspring.core.model.resources import Resources, say_amount, say_amounts
from mainspring.core.model.task import Priority
from mainspring.core.text.durations import say_seconds
from mainspring.core.text.sentences import say_together

UPSTREAM, DUE, FROZEN, PAUSED = "upstream", "due", "not frozen", "not paused"
POLICY, STORE, CIRCUIT, FAILURES = "pool policy", "scheduler", "circuit", "failure budget"
QUOTA, GROUPS, MATCH, SIZE = "tenant quota", "groups", "matching worker", "worker size"
PIECE, PRIORITY, SHARE, ROOM = "in one piece", "priority", "fair share", "room"
QUEUED_GATES = (
    UPSTREAM, DUE, FROZEN, PAUSED, POLICY, STORE, CIRCUIT, FAILURES, QUOTA, GROUPS, MATCH, SIZE, PIECE, PRIORITY, SHARE,
    ROOM,
)  # fmt: skip
"""Through which a queued task goes, in the scheduler's order."""
RULED_OUT = {
    PAUSED: "nothing is frozen or paused",
    QUOTA: "not the quota of its tenant",
    SIZE: "workers that would do are there",
    PRIORITY: "nobody of higher priority is ahead",
    SHARE: "no other tenant goes first",
}
"""What is not the cause, if the gate is passed."""
NOT_THE_CODE = "not your code: it has not started"
MAY_COME_BACK, _NEVER = "workers may still come back", "will never start"


def say_count(count: int, noun: str) -> str:
    """So many of something: `1 task`, `1,200 tasks`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def some_of(names: Sequence[str], count: int | None = None) -> str:
    """The first of these names, and how many more there are."""
    total = len(names) if count is None else count
    named = ", ".join(names[:MOST_NAMED])
    more = total - min(len(names), MOST_NAMED)
    return f"{named} and {more:,} more" if more > 0 else named


def say_part(name: str, part: int, whole: int) -> str:
    """So much of so much of one resource: `3 of 40 cores`."""
    left, right = say_amount(name, part), say_amount(name, whole)
    number, _, unit = left.partition(" ")
    return f"{number if unit.removesuffix('s') == right.partition(' ')[2].removesuffix('s') else left} of {right}"


# what people and rules hold


def frozen(what: str, since: datetime, until: datetime | None, now: datetime) -> str:
    """Somebody has frozen it; `what` says whom and why."""
    ends = "until somebody unfreezes it" if until is None else f"until {say_clock(until, now)}"
    return f"Nothing of it may start: {what}; since {say_clock(since, now)}, {ends}"


def paused(why: str) -> str:
    """Its run starts nothing more until somebody says so."""
    return f"Its run is paused ({why}); nothing more of it starts until somebody resumes it"


def held(why: str) -> str:
    """Its run could not be taken in whole."""
    return f"Its run is held for a fault: {why}; nothing more of it starts until somebody looks at it and resumes it"


def stopped(why: str) -> str:
    """Its run lets nothing more start, and the task is about to be cancelled."""
    return f"It will not start: its run is ending ({why}), and it is about to be cancelled"


def forbidden(why: str) -> str:
    """A policy keeps it out of the pool."""
    return f"Will never start here: {why}"


def store_is_slow(priority: Priority) -> str:
    """Less important work waits until the store is quicker."""
    return f"The scheduler is behind: the store is slow, and work of {priority.name} and below waits for it"


def behind(seconds: float) -> str:
    """What is known is old."""
    return f"The scheduler is {say_seconds(seconds)} behind; what it waits for can't be told before it goes on"


def unknown(seconds: float) -> str:
    """Nothing that is known keeps it from starting."""
    return f"The scheduler has not placed this task for {say_seconds(seconds)}; no cause can be named"


def faulty() -> str:
    """To place such tasks has failed. The fault itself may name others, and is in the server's log."""
    return "Placing tasks like this one failed for a fault of the scheduler, which its log has; no cause can be named"


def circuit_of_job(job: str, because: str, probe_at: datetime, now: datetime, failure: str = "") -> str:
    """Too much of its job fails; `failure` is how its own last try did."""
    own = f"; its own last try failed ({failure})" if failure else ""
    return f"Too much of {job} fails ({because}){own}; one probe {say_in(probe_at, now)} decides"


def circuit_alike(summary: str, due_at: datetime, now: datetime) -> str:
    """Its last failure is everybody's."""
    return f"Many tasks fail alike ({summary}); its next try is held back, and comes {say_in(due_at, now)}"


def throttled(tenant: str, why: str) -> str:
    """Too many tasks of its tenant have failed."""
    return f"{tenant} may start only a few tasks at a time: {why}"


def over_quota(tenant: str, why: str, soonest: str) -> str:
    """Its tenant has what it may have; `soonest` is the task of its own that will free some of it first."""
    return (
        f"{tenant} has too little of its quota left: {why}{f'; the first to free some is {soonest}' if soonest else ''}"
    )


def behind_one_over_quota(tenant: str, first: str, why: str) -> str:
    """An older task of its tenant does not fit the quota, and goes first."""
    return f"{tenant} has no quota left for {first}, which is older and goes first: {why}"


def beyond_quota(tenant: str, wants: str, why: str) -> str:
    """It asks for more than its tenant may ever have."""
    return f"Will never start: it needs {wants}, which alone is more than {tenant} may use ({why})"


def group_is_full(group: GroupRow, used: int, granted: int, holders: Sequence[str], count: int) -> str:
    """Its group lets so many run at a time; `granted` is the part of that which its pool has."""
    held = f"; held by {some_of(holders, count)}" if holders else ""
    if used < group.most and granted < group.most:
        return f"Group {group.name} allows {group.most} at a time, of which this pool has {granted}, all in use{held}"
    return f"Group {group.name} allows {group.most} at a time, and {used} run{'s' if used == 1 else ''}{held}"


def rate_is_used(group: GroupRow, more_at: datetime | None, now: datetime) -> str:
    """Its group lets so many start in each period."""
    then = "asked for more" if more_at is None else f"the next can start {say_in(more_at, now)}"
    return f"Group {group.name} lets {group.most} start every {say_seconds(group.per_seconds or 0)}; {then}"


# workers


def no_worker_at_all(pool: str) -> str:
    """Nobody is there to do anything."""
    return f"No worker is in pool {pool}; it starts when one comes"


def offered_until(worker: str, until: datetime, now: datetime) -> str:
    """Who would do is gone, and was here not long ago."""
    return f"{worker} offered it until {say_clock(until, now)}, and may come back"


def no_such_worker(lacks: str, similar: str, hope: str) -> str:
    """Nobody offers what it asks for; `hope` says why somebody still may."""
    also = f" ({similar})" if similar else ""
    return f"No worker offers {lacks}{also}: {hope or _NEVER}"


def only_away(lacks: str, workers: Sequence[str], count: int) -> str:
    """Who offers it gets nothing new at present."""
    return f"Only workers that get nothing new offer {lacks}: {some_of(workers, count)}"


def too_big(needs: str, largest: str, hope: str) -> str:
    """It would fit no worker, also if that were empty; without `largest`: each part of it would, but not all."""
    has = f"the largest worker that would do has {largest}" if largest else "no worker has all of that"
    return f"Needs {needs}; {has}: {hope or _NEVER}"


def fragmented(needs: Resources, free: Resources, most: Resources, *, is_all: bool) -> str:
    """There is enough, but nowhere enough."""
    total = _say(free) if is_all else f"At least {_say(free)}"
    return f"{total} free in all, but at most {_say(most)} on one worker; needs {_say(needs)}"


def making_room(worker: str, why: str, until: datetime, now: datetime) -> str:
    """Room is kept for it that is not there yet."""
    return f"Room is kept for it on {worker} ({why}) until {say_clock(until, now)}; it starts when that is free"


def kept_for_others(count: int, *, more_important: bool) -> str:
    """What is free is for somebody else."""
    whom = "tasks of higher priority" if more_important else "tasks that have waited for it"
    return f"There is room, but it is kept for {whom} on {say_count(count, 'worker')}"


def apart(names: Sequence[str]) -> str:
    """It may not run where others of its run are."""
    return f"Every worker that would do has {some_of(names)} of its run, and it must run apart from that"


def behind_priority(count: int, own: Priority, *, is_all: bool) -> str:
    """More important ones are to be placed first."""
    tasks = say_count(count, "task") if is_all else f"At least {say_count(count, 'task')}"
    return f"{tasks} of higher priority {'is' if count == 1 else 'are'} ahead of it at {own.name}"


def behind_share(tenant: str, part: float, other_part: float, *, guaranteed: bool) -> str:
    """Another tenant goes first."""
    if guaranteed:
        return f"{tenant} is at {part:.0%} of its share; a tenant that is within its guarantee goes first"
    return f"{tenant} is at {part:.0%} of its share; a tenant at {other_part:.0%} goes first"


def no_room(free: str, ahead: int, own: Priority, next_seconds: float | None) -> str:
    """All that would do is in use; `free` says what is free of how much."""
    before = f"; {say_count(ahead, 'task')} ahead at {own.name}" if ahead else ""
    soon = "" if next_seconds is None else f"; next room in ~{say_seconds(next_seconds)}"
    return f"{free} free{before}{soon}"


def is_next() -> str:
    """Nothing holds it up."""
    return "It is next: it starts with the scheduler's next turn"


def preempted(at: datetime, ran_seconds: float | None, *, saved: bool, place: int, now: datetime) -> str:
    """It had to make room for another, and waits again."""
    ran = "" if ran_seconds is None else f"; it ran {say_seconds(ran_seconds)}"
    kept = "" if ran_seconds is None else ", and what it saved is kept" if saved else ", and had saved nothing"
    return f"Stopped at {say_clock(at, now)} to make room for another task{ran}{kept}; queued again, {_nth(place)}"


def _say(resources: Resources) -> str:
    return say_together(say_amounts(resources)) or "nothing"


def _nth(place: int) -> str:
    tens, ones = divmod(place, 10)
    ending = {1: "st", 2: "nd", 3: "rd"}.get(ones, "th") if tens % 10 != 1 else "th"
    return f"{place:,}{ending} in line"
