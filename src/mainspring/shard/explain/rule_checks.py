"""Rule gates of a queued task: freezes, pauses, policies, circuit breakers, budgets, quotas, groups.

Each is checked by the rule that the scheduler decides by (`shard/placement/gates.py`,
`shard/placement/concurrency_groups.py`). A check is cheap, as it runs for every queue of a pool: it returns a code and
the words of `ms queue`. The full description is made on request (`Hold.tell`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import NamedTuple

from mainspring.core.explain import messages as words
from mainspring.core.explain.diagnosis import MOST_NAMED, InTheWay, Reason
from mainspring.core.explain.diagnosis_report import say_clock, say_in
from mainspring.core.fairness.freezes import FreezeRow
from mainspring.core.graph.fan_out import full_name
from mainspring.core.lifecycle.circuit_breakers import Circuit
from mainspring.core.limits.concurrency_groups import GroupRow
from mainspring.core.model.resources import NAMES, NOTHING, say_amounts
from mainspring.core.model.task import Priority, Task
from mainspring.core.text.durations import say_seconds
from mainspring.core.text.sentences import say_together
from mainspring.shard.explain.diagnosis_context import Look
from mainspring.shard.explain.findings import (
    Finding,
    at,
    cannot_say,
    holder,
    lease_count,
    named,
    never,
    say_held,
    say_often,
    soonest,
    usual_of_run,
    waiter,
)
from mainspring.shard.placement import concurrency_groups, failure_throttle, gates

_LEASES_LOOKED_AT = 20_000


class Hold(NamedTuple):
    """The gate that holds a task."""

    gate: str
    reason: Reason
    why: str
    """As in `ms queue`."""
    tell: Callable[[], Finding]
    """Make the full description."""


def frozen(look: Look) -> Hold | None:
    """A freeze of everything, its pool, its tenant or its job."""
    row = gates.freeze_over(look.memory, look.task.tenant, look.now)
    if row is None:
        row = look.memory.frozen_jobs.get(look.run.subject())
    if row is None or not row.holds_at(look.now):
        return None
    return Hold(words.FROZEN, Reason.FROZEN, str(row), partial(_tell_frozen, look, row))


def _tell_frozen(look: Look, row: FreezeRow) -> Finding:
    until = row.until
    return Finding(
        reason=Reason.FROZEN,
        verdict=words.frozen(row, look.now),
        says=f"since {say_clock(row.since, look.now)}",
        expected=cannot_say("someone has to unfreeze it") if until is None else at(until, "the freeze ends then"),
        in_the_way=(_person(row),),
        numbers={"frozen_seconds": (look.now - row.since).total_seconds()},
    )


def _person(row: FreezeRow) -> InTheWay:
    what = f"{row.kind} {row.subject}" if row.subject else "everything"
    return InTheWay(kind="person", id=row.by, says=f"{row.by} froze {what}")


def resting(look: Look) -> Hold | None:
    """Its run is paused, held or ending."""
    run = look.run.run
    if look.run.is_stopped():
        why = run.because or "it was cancelled, or failed"
        ends = Finding(reason=None, verdict=words.stopped(why), expected=never("its run is ending"))
        return Hold(words.PAUSED, Reason.PAUSED, "its run is ending", lambda: ends)
    if run.held is not None:
        why = words.held(run.held)
    elif run.paused:
        why = words.paused(run.because or "paused")
    else:
        return None
    found = Finding(
        reason=Reason.PAUSED,
        verdict=why,
        expected=cannot_say("someone has to resume it"),
        in_the_way=(InTheWay(kind="run", id=run.id, says=f"{run.id} is {'held' if run.held else 'paused'}"),),
    )
    return Hold(words.PAUSED, Reason.PAUSED, "its run is paused", lambda: found)


def forbidden(look: Look) -> Hold | None:
    """A policy keeps its job out of this pool."""
    hindrance = gates.hinders_run(look.memory, look.run, look.now)
    if hindrance is None or not hindrance[0].startswith(gates.POLICY):
        return None
    why = hindrance[1]
    basis = "a policy keeps its job out of this pool"
    found = Finding(reason=Reason.NO_MATCHING_WORKER, verdict=words.forbidden(why), expected=never(basis))
    return Hold(words.POLICY, Reason.NO_MATCHING_WORKER, why, lambda: found)


def store_is_slow(look: Look) -> Hold | None:
    """The store is slow, or placing such a task failed."""
    held_from = look.memory.hold_from
    if held_from is not None and look.task.priority >= held_from:
        found = Finding(
            reason=Reason.SCHEDULER_LAG,
            verdict=words.store_is_slow(held_from),
            expected=cannot_say("the store is slow"),
        )
        why = "the store is slow; lower priorities are not dispatched"
        return Hold(words.STORE, Reason.SCHEDULER_LAG, why, lambda: found)
    if look.shape not in look.memory.barred:
        return None
    failed = Finding(reason=Reason.UNKNOWN, verdict=words.faulty(), expected=cannot_say("placing it failed"))
    return Hold(words.STORE, Reason.UNKNOWN, "placing it failed with an internal error", lambda: failed)


def circuit(look: Look) -> Hold | None:
    """The circuit breaker of its job is open, and the task is not its probe."""
    job, task, probe = look.run.subject(), look.task, probe_at(look)
    if probe is None or look.now >= probe or (task.trail is not None and task.trail.is_probe):
        return None
    opened = look.memory.failing_jobs.open[job]

    why = f"the circuit breaker of {job} is open ({opened.because})"
    return Hold(words.CIRCUIT, Reason.CIRCUIT_OPEN, why, partial(_tell_circuit, look, opened, probe))


def _tell_circuit(look: Look, opened: Circuit, probe: datetime) -> Finding:
    return Finding(
        reason=Reason.CIRCUIT_OPEN,
        verdict=words.circuit_of_job(opened.subject, opened.because, probe, look.now),
        says=f"probe {say_in(probe, look.now)}",
        expected=cannot_say("it depends on whether the probe succeeds"),
        in_the_way=(failing(opened, look.task.tenant),),
        numbers={"probe_seconds": (probe - look.now).total_seconds()},
    )


def probe_at(look: Look) -> datetime | None:
    """When the next probe of a job with an open circuit breaker may start."""
    seconds = look.memory.failing_jobs.probe_at(look.run.subject())
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def failing(circuit: Circuit, tenant: str) -> InTheWay:
    """A job with an open circuit breaker, as a blocker."""
    return InTheWay(kind="job", id=circuit.subject, says=f"{circuit.subject}: {circuit.because}", tenant=tenant)


def throttled(look: Look) -> Hold | None:
    """The failure budget of its tenant is used up."""
    memory, task = look.memory, look.task
    if task.priority is Priority.P0 or not memory.failures.has(task.tenant):
        return None
    if not failure_throttle.holds(memory, task.tenant, look.now):
        return None
    why = failure_throttle.say(memory, task.tenant, look.now)
    return Hold(words.FAILURES, Reason.RATE_LIMIT, why, partial(_tell_throttled, look, why))


def _tell_throttled(look: Look, why: str) -> Finding:
    tenant = look.task.tenant
    failed = look.memory.failures.count(tenant, look.now)
    return Finding(
        reason=Reason.RATE_LIMIT,
        verdict=words.throttled(tenant, why),
        says=f"{failed}/{look.memory.rules.quota(tenant, look.now).failures_per_hour} failures",
        numbers={"failures": float(failed)},
    )


def over_quota(look: Look) -> Hold | None:
    """Its tenant is at its quota, or this task alone exceeds it."""
    memory, task, now = look.memory, look.task, look.now
    if task.priority is Priority.P0 or task.tenant not in memory.rules.quotas:
        return None
    limit = gates.exceeds(memory, task.priority, task.tenant, look.shape, now)
    blocker = _older_over_quota(look) if limit is None else None
    if blocker is not None:
        limit = gates.exceeds(memory, task.priority, task.tenant, memory.shape(blocker), now)
    if limit is None:
        return None
    why = gates.say_excess(memory, task.tenant, limit, now)
    tell = partial(_tell_quota, look, limit, why, blocker)
    if blocker is None and gates.never_fits(memory, task.tenant, look.shape, now):
        tell = partial(_tell_beyond, look, why)
    return Hold(words.QUOTA, Reason.TENANT_OVER_QUOTA, why, tell)


def _older_over_quota(look: Look) -> Task | None:
    """The older task of the same tenant and priority that goes first and exceeds the quota."""
    task, queues = look.task, look.memory.queues
    first = None if look.is_parked() else look.survey.first_beyond(task.priority, task.tenant)
    mine = None if first is None else queues.front(task.priority, task.tenant, look.shape)
    return first[2] if first is not None and mine is not None and first[:2] < mine[:2] else None


def _tell_beyond(look: Look, why: str) -> Finding:
    tenant, wants = look.task.tenant, say_together(say_amounts(look.shape.resources))
    return Finding(
        reason=Reason.TENANT_OVER_QUOTA,
        verdict=words.beyond_quota(tenant, wants, why),
        says=why,
        expected=never(f"it exceeds the whole quota of {tenant}"),
    )


def _tell_quota(look: Look, limit: str, why: str, blocker: Task | None) -> Finding:
    memory, tenant, now = look.memory, look.task.tenant, look.now
    quota, use = memory.rules.quota(tenant, now), memory.use.get(tenant, NOTHING)
    if limit in NAMES:
        used, most = getattr(use, limit), getattr(quota.guaranteed, limit) + (getattr(quota.burst, limit) or 0)
        says = words.say_part(limit, used, most)
    else:
        used, most = lease_count(memory, tenant), quota.max_tasks or 0
        says = f"{used}/{most} tasks"
    leases = (lease for lease in islice(memory.leases.values(), _LEASES_LOOKED_AT) if lease.tenant == tenant)
    mine = [task for lease in leases for task in islice(lease.members.values(), 1)]
    shown, others = soonest(memory, mine, now, len(mine))
    if blocker is not None:
        verdict = words.behind_one_over_quota(tenant, full_name(blocker), why)
        shown, others = named((waiter(memory, blocker, now), *shown), len(mine) + 1)
    else:
        first = memory.find(shown[0].id) if shown else None
        verdict = words.over_quota(tenant, why, "" if first is None else say_held(memory, first, now))
    return Finding(
        reason=Reason.TENANT_OVER_QUOTA,
        verdict=verdict,
        says=says,
        in_the_way=shown,
        others_in_the_way=others,
        numbers={"used": float(used), "most": float(most)},
    )


def grouped(look: Look) -> Hold | None:
    """A group of the task or of its job is full."""
    group = concurrency_groups.held_by(look.memory, look.task, look.shape, look.now)
    if group is None:
        return None
    reason = Reason.CONCURRENCY if group.per_seconds is None else Reason.RATE_LIMIT
    return Hold(words.GROUPS, reason, concurrency_groups.say(group), partial(_tell_group, look, group))


def _tell_group(look: Look, group: GroupRow) -> Finding:
    book, now = look.memory.groups, look.now
    if group.per_seconds is not None:
        more_at = book.not_before.get(group.limit)
        return Finding(
            reason=Reason.RATE_LIMIT,
            verdict=words.rate_is_used(group, more_at, now),
            says=f"{group.name} {group.most} every {say_seconds(group.per_seconds)}",
            in_the_way=(
                InTheWay(kind="group", id=group.name, says=concurrency_groups.say(group), tenant=group.tenant),
            ),
            numbers={"most": float(group.most), "per_seconds": group.per_seconds},
        )
    used, granted = book.use.get(group.limit, 0), min(book.shares.get(group.limit, 0), group.most)
    found = [*_runs_in(look, group.limit), *_tasks_in(look, group.limit)]
    shown, others = named(found, max(used, len(found)))
    names = [one.says for one in shown]
    return Finding(
        reason=Reason.CONCURRENCY,
        verdict=words.group_is_full(group, used, granted, names[:1], max(1, used) if names else 0),
        says=f"{group.name} {used}/{group.most}",
        in_the_way=shown
        or (InTheWay(kind="group", id=group.name, says=concurrency_groups.say(group), tenant=group.tenant),),
        others_in_the_way=others,
        numbers={"used": float(used), "most": float(group.most), "granted": float(granted)},
    )


def _runs_in(look: Look, limit: str) -> Iterator[InTheWay]:
    """Runs counted by a limit."""
    memory = look.memory
    for run_id, limits in islice(memory.groups.runs.items(), _LEASES_LOOKED_AT):
        run = memory.runs.get(run_id)
        if limit in limits and run is not None:
            since = run.run.adopted_at or run.run.created_at
            lasts = say_seconds((look.now - since).total_seconds())
            says = f"{run_id} ({run.job.spec.name}, {lasts}{say_often(usual_of_run(memory, run))})"
            yield InTheWay(kind="run", id=run_id, says=says, tenant=run.run.tenant, priority=run.run.priority)


def _tasks_in(look: Look, limit: str) -> Iterator[InTheWay]:
    """Tasks whose leases are counted by a limit."""
    leases = islice(look.memory.leases.values(), _LEASES_LOOKED_AT)
    tasks = (task for lease in leases if limit in lease.shape.groups for task in islice(lease.members.values(), 1))
    for task in islice(tasks, MOST_NAMED):
        yield holder(look.memory, task, look.now)
