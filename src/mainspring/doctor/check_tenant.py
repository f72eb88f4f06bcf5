"""Is one tenant slow? Its quota, what its jobs ask for, what they wait for, and who crowds it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from mainspring.definitions.quantities import say_bytes, say_seconds
from mainspring.doctor.facts import NEVER, Facts, TenantFacts
from mainspring.doctor.findings import Check, Topic, say_number, say_some
from mainspring.protocol.rest.runs import TaskView
from mainspring.protocol.rest.schedules import DurationView
from mainspring.protocol.rest.sharing import TenantUseView

_FEW = 5
"""Of fewer runs than this nothing is usual."""
_LATELY = timedelta(hours=1)
_OVER = 1.05
"""Of its share: less is no burst."""


def ask_tenant(facts: Facts) -> Iterator[Check]:
    """The questions of a tenant whose work is slow: what it can mend itself comes before what others do to it."""
    tenant = facts.tenant
    if tenant is None:
        return
    topic = Topic(f"Tenant {tenant.name}")
    yield _within_quota(tenant, topic)
    yield _not_frozen(facts, tenant, topic)
    yield _asks_for_what_is_there(facts, tenant, topic)
    yield _goes_on(tenant, topic)
    yield _has_time(tenant, topic)
    yield _upstream(facts, tenant, topic)
    yield _succeeds(facts, tenant, topic)
    yield _not_crowded(facts, tenant, topic)


def _within_quota(tenant: TenantFacts, topic: Topic) -> Check:
    question = "Is it within its quota?"
    if not tenant.uses:
        return topic.unknown(question, "no leader says what it uses")
    held = next((use for use in tenant.uses if use.blocked_by), None)
    if held is not None:
        waiting = say_number(sum(held.queued.values()), "task waits", "tasks wait")
        limit = _limit_of(held)
        return topic.no(
            question,
            f"{waiting} in pool {held.pool}: {held.blocked_by}",
            "give it more for a while, if others can spare it" if limit else "see what holds it",
            f"mainspring quota raise {tenant.name} --for 4h {limit} --pool {held.pool}"
            if limit
            else f"mainspring quota show {tenant.name} --pool {held.pool}",
        )
    waits = sum(sum(use.queued.values()) for use in tenant.uses)
    count = sum(use.rooms for use in tenant.uses)
    running, queued = say_number(count, "task runs", "tasks run"), say_number(waits, "waits", "wait")
    return topic.yes(question, f"{running}, {queued}; no limit of it holds anything")


def _limit_of(use: TenantUseView) -> str:
    """The option that doubles the limit of a quota that is used up; empty if none is."""
    quota = use.quota
    if quota.max_tasks is not None and use.rooms >= quota.max_tasks:
        return f"--max-tasks {max(1, 2 * quota.max_tasks)}"
    found = []
    for resource in ("cpu", "memory", "gpu", "disk"):
        used, promised, beyond = (getattr(one, resource) or 0 for one in (use.use, quota.guaranteed, quota.burst))
        if getattr(quota.burst, resource) is not None and used:
            more = promised + 2 * beyond
            said = f"{more:g}" if resource in {"cpu", "gpu"} else say_bytes(more)
            found.append((used / max(promised + beyond, 0.001), f"--burst-{resource} {said}"))
    return max(found)[1] if found else ""


def _not_frozen(facts: Facts, tenant: TenantFacts, topic: Topic) -> Check:
    question = "Is its work unfrozen?"
    own = [
        one
        for one in facts.freezes
        if (one.kind == "tenant" and one.subject == tenant.name)
        or (one.kind == "job" and one.subject.startswith(f"{tenant.name}/"))
    ]
    if not own:
        return topic.yes(question, "nothing of it is frozen")
    first = own[0]
    return topic.no(
        question,
        f"{first.kind} {first.subject} is frozen, by {first.by}" + (f': "{first.why}"' if first.why else ""),
        "let it go on when that is over",
        f"mainspring unfreeze {first.kind} {first.subject}",
    )


def _asks_for_what_is_there(facts: Facts, tenant: TenantFacts, topic: Topic) -> Check:
    question = "Do its jobs ask for what some worker has?"
    if (fault := facts.fault("diagnoses")) is not None and not tenant.waiting:
        return topic.unknown(question, fault)
    never = next((one for one in tenant.waiting if one.reason in NEVER), None)
    if never is None:
        return topic.yes(question, "nothing of it waits for a worker that is not there")
    return topic.no(
        question,
        f"{never.name}: {never.verdict}",
        "change what the job asks for (labels, zone, cpu, memory, gpus), or start a worker that has it",
        f"mainspring why {never.subject}",
    )


def _goes_on(tenant: TenantFacts, topic: Topic) -> Check:
    """What has waited longest, in the scheduler's own words, with what changes it."""
    question = "Does nothing else hold its work?"
    others = [one for one in tenant.waiting if one.reason not in NEVER]
    if not others:
        return topic.yes(question, "nothing else of it waits in a queue")
    oldest = next((one for one in others if one.is_problem), others[0])
    finding = f"{oldest.name}: {oldest.verdict}"
    if not oldest.is_problem:
        return topic.yes(question, finding)
    act = next((one for one in oldest.acts if one.command), None)
    if act is None:
        return topic.no(question, finding, "see what would change it", f"mainspring why {oldest.subject}")
    return topic.no(question, finding, act.says, act.command)


def _has_time(tenant: TenantFacts, topic: Topic) -> Check:
    """Limits that are shorter than the tasks usually take stop them again and again."""
    question = "Do its jobs give tasks enough time?"
    short = []
    for job in tenant.jobs:
        for usual in job.durations:
            limit = job.limits.get(usual.task)
            if limit is not None and usual.count >= _FEW and limit < usual.p90_seconds:
                short.append(f"{job.name}/{usual.task} may take {say_seconds(limit)} and takes {_usually(usual)}")
    if short:
        return topic.no(
            question,
            say_some(short),
            "set a longer `timeout`, or make the task faster",
            f"mainspring durations {short[0].partition('/')[0]} -t {tenant.name}",
        )
    if tenant.timed_out:
        tasks = [f"{task.name} ({task.because})" for task in tenant.timed_out]
        return topic.no(
            question,
            f"{say_number(len(tasks), 'task', 'tasks')} ran out of time: {say_some(tasks, 2)}",
            "set a longer `timeout`, or find what makes it slow",
            f"mainspring logs {tenant.timed_out[0].id} -t {tenant.name}",
        )
    return topic.yes(question, f"no limit of {say_number(len(tenant.jobs), 'job')} is shorter than usual")


def _upstream(facts: Facts, tenant: TenantFacts, topic: Topic) -> Check:
    """What others wait for runs longer than it does as a rule: not the scheduler's doing."""
    question = "Do its tasks run as fast as usual?"
    usual = {(job.name, one.task): one for job in tenant.jobs for one in job.durations if one.count >= _FEW}
    slow: list[tuple[float, TaskView, str]] = []
    for job, task in tenant.running:
        known = usual.get((job, task.name))
        if known is None or task.started_at is None:
            continue
        ran = (facts.at - task.started_at).total_seconds()
        if ran > known.p99_seconds:
            slow.append((ran, task, f"{job}/{task.name} has run for {say_seconds(ran)} and takes {_usually(known)}"))
    if not slow:
        return topic.yes(
            question, f"{say_number(len(tenant.running), 'task runs', 'tasks run')}, none longer than usual"
        )
    slow.sort(key=lambda one: -one[0])
    return topic.no(
        question,
        say_some([words for _, _, words in slow]),
        "what comes after waits for them: see what they do",
        f"mainspring logs {slow[0][1].id} -f -t {tenant.name}",
    )


def _usually(usual: DurationView) -> str:
    return f"{say_seconds(usual.p50_seconds)} to {say_seconds(usual.p90_seconds)} as a rule"


def _succeeds(facts: Facts, tenant: TenantFacts, topic: Topic) -> Check:
    question = "Does its work succeed?"
    if (fault := facts.fault("dead letters")) is not None:
        return topic.unknown(question, fault)
    lately = [one for one in tenant.dead if one.ended_at > facts.at - _LATELY]
    if not lately:
        return topic.yes(question, "no task of it failed for good within an hour")
    first = lately[0]
    return topic.no(
        question,
        f"{say_number(len(lately), 'task')} failed for good within an hour; {first.job}/{first.task}: {first.because}",
        "see what it printed, mend it, and start it again",
        f"mainspring logs {first.task_id} -t {tenant.name}",
    )


def _not_crowded(facts: Facts, tenant: TenantFacts, topic: Topic) -> Check:
    """Somebody has more than its share while this tenant waits below its own."""
    question = "Does it get its share?"
    short = [use for use in tenant.uses if any(use.queued.values()) and use.share < use.entitled]
    for own in short:
        over = [one for one in tenant.others if one.pool == own.pool and one.share > one.entitled * _OVER]
        if over:
            first = max(over, key=lambda one: one.share / max(one.entitled, 0.001))
            return topic.no(
                question,
                f"it has {own.share:.0%} of pool {own.pool} and may have {own.entitled:.0%}, while {first.tenant} has "
                f"{first.share:.0%} of {first.entitled:.0%} and {sum(first.queued.values()):,} more waiting",
                "it evens out as tasks end; to make it faster, give it more weight for a while",
                f"mainspring quota raise {tenant.name} --for 4h --weight {2 * own.quota.weight:g} --pool {own.pool}",
            )
    shares = [
        f"{use.share:.0%} of pool {use.pool} ({use.entitled:.0%} is its share)" for use in tenant.uses if use.rooms
    ]
    if short and _has_unseen(facts, tenant):
        return topic.unknown(question, "others use the pool as well, and only those who see every tenant see who")
    return topic.yes(question, say_some(shares) or "nothing of it runs, and nobody is in its way")


def _has_unseen(facts: Facts, tenant: TenantFacts) -> bool:
    """Whether more of a pool is in use than those use who can be seen."""
    seen = sum(use.use.cpu or 0 for use in (*tenant.uses, *tenant.others))
    return sum(pool.queue.used.cpu or 0 for pool in facts.pools if pool.queue is not None) > seen
