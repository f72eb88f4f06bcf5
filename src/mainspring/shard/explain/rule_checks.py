"""Rule gates of a queued task: freezes, pauses, policies, circuit breakers, budgets, quotas, groups.

Each is checked by the rule that the scheduler decides by (`shard/placement/gates.py`,
`shard/placement/concurrency_groups.py`). A check is cheap, as it runs for every queue of a pool: it returns a code and
the words of `ms queue`. The full description is made on request (`GateBlock.describe`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import NamedTuple

from mainspring.core.explain import messages as words
from mainspring.core.explain.diagnosis import MAX_NAMED, Blocker, Expected, Reason
from mainspring.core.explain.diagnosis_report import format_clock, format_relative
from mainspring.core.fairness.freezes import FreezeRow
from mainspring.core.graph.fan_out import full_name
from mainspring.core.lifecycle.circuit_breakers import CircuitBreaker
from mainspring.core.limits.concurrency_groups import GroupRow
from mainspring.core.model.resources import NAMES, ZERO_RESOURCES, format_amounts, format_part
from mainspring.core.model.task import Priority, Task
from mainspring.core.text.durations import format_seconds
from mainspring.core.text.sentences import join_words
from mainspring.shard.explain.diagnosis_context import TaskContext
from mainspring.shard.explain.findings import (
    Finding,
    format_held,
    format_usual,
    holder,
    lease_count,
    named,
    soonest,
    usual_of_run,
    waiter,
)
from mainspring.shard.placement import concurrency_groups, failure_throttle, gates

_MAX_LEASES = 20_000


class GateBlock(NamedTuple):
    """The gate that holds a task."""

    gate: str
    reason: Reason
    why: str
    """As in `ms queue`."""
    describe: Callable[[], Finding]
    """Make the full description."""


def frozen(context: TaskContext) -> GateBlock | None:
    """A freeze of everything, its pool, its tenant or its job."""
    row = gates.freeze_over(context.memory, context.task.tenant, context.now)
    if row is None:
        row = context.memory.limits.frozen_jobs.get(context.run.subject())
    if row is None or not row.holds_at(context.now):
        return None
    return GateBlock(words.FROZEN, Reason.FROZEN, str(row), partial(_describe_frozen, context, row))


def _describe_frozen(context: TaskContext, row: FreezeRow) -> Finding:
    ends = Expected.unknown("an operator must unfreeze it")
    if row.until is not None:
        ends = Expected.at(row.until, "the freeze ends then")
    return Finding(
        reason=Reason.FROZEN,
        verdict=words.frozen(row, context.now),
        says=f"since {format_clock(row.since, context.now)}",
        expected=ends,
        blockers=named([_person(row)]),
        numbers={"frozen_seconds": (context.now - row.since).total_seconds()},
    )


def _person(row: FreezeRow) -> Blocker:
    what = f"{row.kind} {row.subject}" if row.subject else "everything"
    return Blocker("person", row.by, f"{row.by} froze {what}")


def paused(context: TaskContext) -> GateBlock | None:
    """The task's run is paused, held or ending."""
    run = context.run.run
    if context.run.is_stopped():
        why = run.because or "it was cancelled, or failed"
        ends = Finding(reason=None, verdict=words.stopped(why), expected=Expected.never("its run is ending"))
        return GateBlock(words.PAUSED, Reason.PAUSED, "its run is ending", lambda: ends)
    if run.held is None and not run.paused:
        return None
    found = Finding(
        reason=Reason.PAUSED,
        verdict=words.paused(run.because or "paused") if run.held is None else words.held(run.held),
        expected=Expected.unknown("an operator must resume it"),
        blockers=named([Blocker("run", run.id, f"{run.id} is {'held' if run.held else 'paused'}")]),
    )
    return GateBlock(words.PAUSED, Reason.PAUSED, "its run is paused", lambda: found)


def forbidden(context: TaskContext) -> GateBlock | None:
    """A policy keeps the task's job out of this pool."""
    policy = context.memory.rules.forbids(context.run.job.spec.labels)
    if policy is None:
        return None
    why, expected = gates.format_policy(policy), Expected.never("a policy keeps its job out of this pool")
    found = Finding(reason=Reason.NO_MATCHING_WORKER, verdict=words.forbidden(why), expected=expected)
    return GateBlock(words.POLICY, Reason.NO_MATCHING_WORKER, why, lambda: found)


def store_is_slow(context: TaskContext) -> GateBlock | None:
    """The store is slow, or placing such a task failed."""
    paused_from = context.memory.queues.suspended_from
    if paused_from is not None and context.task.priority >= paused_from:
        slow, why = words.store_is_slow(paused_from), "the store is slow; lower priorities are not dispatched"
        found = Finding(reason=Reason.SCHEDULER_LAG, verdict=slow, expected=Expected.unknown("the store is slow"))
        return GateBlock(words.STORE, Reason.SCHEDULER_LAG, why, lambda: found)
    if context.shape not in context.memory.queues.faulty:
        return None
    failed = Finding(reason=Reason.UNKNOWN, verdict=words.faulty(), expected=Expected.unknown("placing it failed"))
    return GateBlock(words.STORE, Reason.UNKNOWN, "placing it failed with an internal error", lambda: failed)


def circuit(context: TaskContext) -> GateBlock | None:
    """The circuit breaker of its job is open, and the task is not its probe."""
    job, task, probe = context.run.subject(), context.task, probe_at(context)
    if probe is None or context.now >= probe or (task.trail is not None and task.trail.is_probe):
        return None
    opened = context.memory.limits.job_breakers.open[job]

    why = f"the circuit breaker of {job} is open ({opened.because})"
    return GateBlock(words.CIRCUIT, Reason.CIRCUIT_OPEN, why, partial(_describe_circuit, context, opened, probe))


def _describe_circuit(context: TaskContext, opened: CircuitBreaker, probe: datetime) -> Finding:
    return Finding(
        reason=Reason.CIRCUIT_OPEN,
        verdict=words.circuit_of_job(opened.subject, opened.because, probe, context.now),
        says=f"probe {format_relative(probe, context.now)}",
        expected=Expected.unknown("it depends on whether the probe succeeds"),
        blockers=named([failing(opened, context.task.tenant)]),
        numbers={"probe_seconds": (probe - context.now).total_seconds()},
    )


def probe_at(context: TaskContext) -> datetime | None:
    """Return when the next probe of a job with an open circuit breaker may start."""
    seconds = context.memory.limits.job_breakers.probe_at(context.run.subject())
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def failing(circuit: CircuitBreaker, tenant: str) -> Blocker:
    """A job with an open circuit breaker, as a blocker."""
    return Blocker("job", circuit.subject, f"{circuit.subject}: {circuit.because}", tenant)


def throttled(context: TaskContext) -> GateBlock | None:
    """The failure budget of its tenant is used up."""
    memory, task = context.memory, context.task
    if task.priority is Priority.P0 or not memory.limits.failures.has(task.tenant):
        return None
    if not failure_throttle.is_throttled(memory, task.tenant, context.now):
        return None
    why = failure_throttle.describe(memory, task.tenant, context.now)
    return GateBlock(words.FAILURES, Reason.RATE_LIMIT, why, partial(_describe_throttled, context, why))


def _describe_throttled(context: TaskContext, why: str) -> Finding:
    tenant = context.task.tenant
    failed = context.memory.limits.failures.count(tenant, context.now)
    return Finding(
        reason=Reason.RATE_LIMIT,
        verdict=words.throttled(tenant, why),
        says=f"{failed}/{context.memory.rules.quota(tenant, context.now).failures_per_hour} failures",
        numbers={"failures": float(failed)},
    )


def over_quota(context: TaskContext) -> GateBlock | None:
    """The task's tenant is at its quota, or this task alone exceeds it."""
    memory, task, now = context.memory, context.task, context.now
    if task.priority is Priority.P0 or task.tenant not in memory.rules.quotas:
        return None
    limit = gates.exceeds(memory, task.priority, task.tenant, context.shape, now)
    blocker = _older_over_quota(context) if limit is None else None
    if blocker is not None:
        limit = gates.exceeds(memory, task.priority, task.tenant, memory.shape(blocker), now)
    if limit is None:
        return None
    why = gates.format_excess(memory, task.tenant, limit, now)
    describe = partial(_describe_quota, context, limit, why, blocker)
    if blocker is None and gates.exceeds_alone(memory, task.tenant, context.shape, now):
        describe = partial(_describe_beyond_quota, context, why)
    return GateBlock(words.QUOTA, Reason.TENANT_OVER_QUOTA, why, describe)


def _older_over_quota(context: TaskContext) -> Task | None:
    """The older task of the same tenant and priority that goes first and exceeds the quota."""
    task, queues = context.task, context.memory.queues
    first = None if context.is_parked() else context.diagnosis.first_beyond(task.priority, task.tenant)
    mine = None if first is None else queues.front(task.priority, task.tenant, context.shape)
    return first[2] if first is not None and mine is not None and first[:2] < mine[:2] else None


def _describe_beyond_quota(context: TaskContext, why: str) -> Finding:
    tenant, wants = context.task.tenant, join_words(format_amounts(context.shape.resources))
    return Finding(
        reason=Reason.TENANT_OVER_QUOTA,
        verdict=words.beyond_quota(tenant, wants, why),
        says=why,
        expected=Expected.never(f"it exceeds the whole quota of {tenant}"),
    )


def _describe_quota(context: TaskContext, limit: str, why: str, blocker: Task | None) -> Finding:
    memory, tenant, now = context.memory, context.task.tenant, context.now
    quota, use = memory.rules.quota(tenant, now), memory.leases.use.get(tenant, ZERO_RESOURCES)
    if limit in NAMES:
        used, most = getattr(use, limit), getattr(quota.guaranteed, limit) + (getattr(quota.burst, limit) or 0)
        says = format_part(limit, used, most)
    else:
        used, most = lease_count(memory, tenant), quota.max_tasks or 0
        says = f"{used}/{most} tasks"
    leases = (lease for lease in islice(memory.leases.values(), _MAX_LEASES) if lease.tenant == tenant)
    mine = [task for lease in leases for task in islice(lease.members.values(), 1)]
    holders = soonest(memory, mine, now, len(mine))
    if blocker is not None:
        verdict = words.behind_one_over_quota(tenant, full_name(blocker), why)
        holders = named((waiter(memory, blocker, now), *holders.shown), len(mine) + 1)
    else:
        first = memory.runs.find(holders.shown[0].id) if holders.shown else None
        verdict = words.over_quota(tenant, why, "" if first is None else format_held(memory, first, now))
    return Finding(
        reason=Reason.TENANT_OVER_QUOTA,
        verdict=verdict,
        says=says,
        blockers=holders,
        numbers={"used": float(used), "most": float(most)},
    )


def grouped(context: TaskContext) -> GateBlock | None:
    """A group of the task or of its job is full."""
    group = concurrency_groups.held_by(context.memory, context.task, context.shape, context.now)
    if group is None:
        return None
    reason = Reason.CONCURRENCY if group.per_seconds is None else Reason.RATE_LIMIT
    return GateBlock(words.GROUPS, reason, concurrency_groups.describe(group), partial(_describe_group, context, group))


def _describe_group(context: TaskContext, group: GroupRow) -> Finding:
    ledger, now = context.memory.limits.ledger, context.now
    if group.per_seconds is not None:
        more_at = ledger.not_before.get(group.limit)
        return Finding(
            reason=Reason.RATE_LIMIT,
            verdict=words.rate_is_used(group, more_at, now),
            says=f"{group.name} {group.most} every {format_seconds(group.per_seconds)}",
            blockers=named([_group(group)]),
            numbers={"most": float(group.most), "per_seconds": group.per_seconds},
        )
    used, granted = ledger.use.get(group.limit, 0), min(ledger.shares.get(group.limit, 0), group.most)
    found = [*_runs_in(context, group.limit), *_tasks_in(context, group.limit)]
    holders = named(found, max(used, len(found)))
    names = [one.says for one in holders.shown]
    return Finding(
        reason=Reason.CONCURRENCY,
        verdict=words.group_is_full(group, used, granted, names[:1], max(1, used) if names else 0),
        says=f"{group.name} {used}/{group.most}",
        blockers=holders if found else named([_group(group)]),
        numbers={"used": float(used), "most": float(group.most), "granted": float(granted)},
    )


def _group(group: GroupRow) -> Blocker:
    return Blocker("group", group.name, concurrency_groups.describe(group), group.tenant)


def _runs_in(context: TaskContext, limit: str) -> Iterator[Blocker]:
    """Runs counted by a limit."""
    memory = context.memory
    for run_id, limits in islice(memory.limits.ledger.runs.items(), _MAX_LEASES):
        run = memory.runs.get(run_id)
        if limit in limits and run is not None:
            since = run.run.adopted_at or run.run.created_at
            lasts = format_seconds((context.now - since).total_seconds())
            says = f"{run_id} ({run.job.spec.name}, {lasts}{format_usual(usual_of_run(memory, run))})"
            yield Blocker("run", run_id, says, run.run.tenant, run.run.priority)


def _tasks_in(context: TaskContext, limit: str) -> Iterator[Blocker]:
    """Tasks whose leases are counted by a limit."""
    leases = islice(context.memory.leases.values(), _MAX_LEASES)
    tasks = (task for lease in leases if limit in lease.shape.groups for task in islice(lease.members.values(), 1))
    for task in islice(tasks, MAX_NAMED):
        yield holder(context.memory, task, context.now)
