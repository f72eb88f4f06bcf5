"""Checks of one slow tenant: quota, feasibility, waiting reasons, timeouts, failures, fair share."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from mainspring.core.text.durations import format_seconds
from mainspring.core.text.quantities import format_bytes
from mainspring.doctor.facts import NEVER_STARTS, Facts, TenantFacts
from mainspring.doctor.health_check import Check, Question, format_count, format_list
from mainspring.protocol.rest.runs import TaskView
from mainspring.protocol.rest.schedules import DurationView
from mainspring.protocol.rest.sharing import TenantUseView

_MIN_RUNS = 5
"""Minimum number of runs for duration statistics."""
_RECENT = timedelta(hours=1)
_BURST_FACTOR = 1.05
"""A tenant above its fair share by this factor crowds others."""


def check_tenant(facts: Facts) -> Iterator[Check]:
    """Run the checks of a slow tenant: causes that it can fix come before those of other tenants."""
    tenant = facts.tenant
    if tenant is None:
        return
    topic = f"Tenant {tenant.name}"
    yield _within_quota(tenant, topic)
    yield _not_frozen(facts, tenant, topic)
    yield _is_feasible(facts, tenant, topic)
    yield _is_unblocked(tenant, topic)
    yield _has_time(tenant, topic)
    yield _upstream(facts, tenant, topic)
    yield _succeeds(facts, tenant, topic)
    yield _not_crowded(facts, tenant, topic)


def _within_quota(tenant: TenantFacts, topic: str) -> Check:
    question = Question(topic, "quota", "Is it within its quota?")
    if not tenant.uses:
        return question.unknown("no pool leader answers")
    held = next((use for use in tenant.uses if use.blocked_by), None)
    if held is not None:
        waiting = f"{format_count(sum(held.queued.values()), 'task')} queued"
        limit = _limit_of(held)
        finding = f"{waiting} in pool {held.pool}: {held.blocked_by}"
        if limit:
            command = f"mainspring quota raise {tenant.name} --for 4h {limit} --pool {held.pool}"
            return question.no("quota.exceeded", finding, "raise its quota temporarily", command)
        command = f"mainspring quota show {tenant.name} --pool {held.pool}"
        return question.no("quota.blocked", finding, "check the limit that blocks it", command)
    queued = sum(sum(use.queued.values()) for use in tenant.uses)
    tasks = format_count(sum(use.running for use in tenant.uses), "running task")
    return question.yes(f"{tasks}, {queued:,} queued; no limit blocks it")


def _limit_of(use: TenantUseView) -> str:
    """Return the CLI option that doubles the exhausted limit of a quota; empty if none is exhausted."""
    quota = use.quota
    if quota.max_tasks is not None and use.running >= quota.max_tasks:
        return f"--max-tasks {max(1, 2 * quota.max_tasks)}"
    found = []
    for resource in ("cpu", "memory", "gpu", "disk"):
        used, promised, beyond = (getattr(one, resource) or 0 for one in (use.use, quota.guaranteed, quota.burst))
        if getattr(quota.burst, resource) is not None and used:
            more = promised + 2 * beyond
            said = f"{more:g}" if resource in {"cpu", "gpu"} else format_bytes(more)
            found.append((used / max(promised + beyond, 0.001), f"--burst-{resource} {said}"))
    return max(found)[1] if found else ""


def _not_frozen(facts: Facts, tenant: TenantFacts, topic: str) -> Check:
    question = Question(topic, "tenant_freeze", "Is it unfrozen?")
    own = [
        one
        for one in facts.freezes
        if (one.kind == "tenant" and one.subject == tenant.name)
        or (one.kind == "job" and one.subject.startswith(f"{tenant.name}/"))
    ]
    if not own:
        return question.yes("neither the tenant nor its jobs are frozen")
    first = own[0]
    return question.no(
        "tenant_freeze.frozen",
        f"{first.by} froze {first.kind} {first.subject}" + (f': "{first.why}"' if first.why else ""),
        "unfreeze it when the reason no longer applies",
        f"mainspring unfreeze {first.kind} {first.subject}",
    )


def _is_feasible(facts: Facts, tenant: TenantFacts, topic: str) -> Check:
    question = Question(topic, "feasibility", "Do workers match its jobs?")
    if (fault := facts.faults.get("diagnoses")) is not None and not tenant.waiting:
        return question.unknown(fault)
    never = next((one for one in tenant.waiting if one.reason in NEVER_STARTS), None)
    if never is None:
        return question.yes("none of its tasks waits for a missing worker")
    return question.no(
        "feasibility.no_worker",
        f"{never.name}: {never.verdict}",
        "change the requirements of the job (labels, zone, cpu, memory, gpus), or start a matching worker",
        f"mainspring why {never.subject}",
    )


def _is_unblocked(tenant: TenantFacts, topic: str) -> Check:
    """Check the task that has waited longest, with the scheduler's diagnosis and suggestion."""
    question = Question(topic, "blocked", "Is nothing else blocking its tasks?")
    others = [one for one in tenant.waiting if one.reason not in NEVER_STARTS]
    if not others:
        return question.yes("no other task is queued")
    oldest = next((one for one in others if one.is_problem), others[0])
    finding = f"{oldest.name}: {oldest.verdict}"
    if not oldest.is_problem:
        return question.yes(finding)
    action = next((one for one in oldest.suggestions if one.command), None)
    if action is None:
        advice = "check what would unblock it"
        return question.no("blocked.task", finding, advice, f"mainspring why {oldest.subject}")
    return question.no("blocked.task", finding, action.says, action.command)


def _has_time(tenant: TenantFacts, topic: str) -> Check:
    """Check for timeouts shorter than the usual duration, which fail tasks repeatedly."""
    question = Question(topic, "timeouts", "Are its task timeouts long enough?")
    short = []
    for job in tenant.jobs:
        for usual in job.durations:
            limit = job.limits.get(usual.task)
            if limit is not None and usual.count >= _MIN_RUNS and limit < usual.p90_seconds:
                short.append(
                    f"{job.name}/{usual.task} has a timeout of {format_seconds(limit)} and takes {_usually(usual)}"
                )
    if short:
        return question.no(
            "timeouts.too_short",
            format_list(short),
            "set a longer `timeout`, or make the task faster",
            f"mainspring durations {short[0].partition('/')[0]} -t {tenant.name}",
        )
    if tenant.timed_out:
        tasks = [f"{task.name} ({task.because})" for task in tenant.timed_out]
        return question.no(
            "timeouts.timed_out",
            f"{format_count(len(tasks), 'task')} timed out: {format_list(tasks, 2)}",
            "set a longer `timeout`, or find out why the task is slow",
            f"mainspring logs {tenant.timed_out[0].id} -t {tenant.name}",
        )
    return question.yes(f"{format_count(len(tenant.jobs), 'job')}: no timeout is too short")


def _upstream(facts: Facts, tenant: TenantFacts, topic: str) -> Check:
    """Check for running tasks that take longer than usual and delay their dependents."""
    question = Question(topic, "durations", "Do its tasks run as fast as usual?")
    usual = {(job.name, one.task): one for job in tenant.jobs for one in job.durations if one.count >= _MIN_RUNS}
    slow: list[tuple[float, TaskView, str]] = []
    for job, task in tenant.running:
        known = usual.get((job, task.name))
        if known is None or task.started_at is None:
            continue
        ran = (facts.at - task.started_at).total_seconds()
        if ran > known.p99_seconds:
            slow.append((ran, task, f"{job}/{task.name} has run for {format_seconds(ran)}, usually {_usually(known)}"))
    if not slow:
        return question.yes(f"{format_count(len(tenant.running), 'running task')}, none slower than usual")
    slow.sort(key=lambda one: -one[0])
    return question.no(
        "durations.slow",
        format_list([words for _, _, words in slow]),
        "dependent tasks wait for them: check their logs",
        f"mainspring logs {slow[0][1].id} -f -t {tenant.name}",
    )


def _usually(usual: DurationView) -> str:
    return f"{format_seconds(usual.p50_seconds)} to {format_seconds(usual.p90_seconds)} (p50 to p90)"


def _succeeds(facts: Facts, tenant: TenantFacts, topic: str) -> Check:
    question = Question(topic, "failures", "Do its tasks succeed?")
    if (fault := facts.faults.get("dead letters")) is not None:
        return question.unknown(fault)
    recent = [one for one in tenant.dead if one.ended_at > facts.at - _RECENT]
    if not recent:
        return question.yes("no task failed permanently within an hour")
    first = recent[0]
    return question.no(
        "failures.dead_letters",
        f"{format_count(len(recent), 'task')} failed permanently within an hour; "
        f"{first.job}/{first.task}: {first.because}",
        "check its log, fix the cause, and retry it",
        f"mainspring logs {first.task_id} -t {tenant.name}",
    )


def _not_crowded(facts: Facts, tenant: TenantFacts, topic: str) -> Check:
    """Check for a tenant above its fair share while this one waits below its own."""
    question = Question(topic, "fair_share", "Does it get its fair share?")
    short = [use for use in tenant.uses if any(use.queued.values()) and use.share < use.fair_share]
    for own in short:
        over = [one for one in tenant.others if one.pool == own.pool and one.share > one.fair_share * _BURST_FACTOR]
        if over:
            first = max(over, key=lambda one: one.share / max(one.fair_share, 0.001))
            return question.no(
                "fair_share.crowded",
                f"it uses {own.share:.0%} of pool {own.pool} (fair share {own.fair_share:.0%}); {first.tenant} uses "
                f"{first.share:.0%} ({first.fair_share:.0%}), with {sum(first.queued.values()):,} more queued",
                "shares even out as tasks end; raise its weight temporarily to speed this up",
                f"mainspring quota raise {tenant.name} --for 4h --weight {2 * own.quota.weight:g} --pool {own.pool}",
            )
    shares = [
        f"{use.share:.0%} of pool {use.pool} (fair share {use.fair_share:.0%})" for use in tenant.uses if use.running
    ]
    if short and _has_unseen(facts, tenant):
        return question.unknown("other tenants use the pool too; this token can't see them")
    return question.yes(format_list(shares) or "it has no running tasks, and nothing crowds it")


def _has_unseen(facts: Facts, tenant: TenantFacts) -> bool:
    """Return whether a pool has more usage than that of the visible tenants."""
    seen = sum(use.use.cpu or 0 for use in (*tenant.uses, *tenant.others))
    return sum(pool.queue.used.cpu or 0 for pool in facts.pools if pool.queue is not None) > seen
