"""Checks of the queues: age of the oldest task, reasons for waiting, free capacity, intake, open circuits."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.core.text.durations import format_seconds
from mainspring.core.text.quantities import format_bytes
from mainspring.doctor.facts import NEVER_STARTS, REASONS, Facts, PoolFacts
from mainspring.doctor.health_check import Check, Question, format_count, format_list
from mainspring.protocol.rest.schedules import BreakerView
from mainspring.protocol.rest.sharing import QueueView

LONG_WAIT_SECONDS = 300.0
"""Queue age from which the check fails."""
_LARGE_INTAKE = 10_000
_FULL = 0.95
_NAMES = {"cpu": "cores", "memory": "memory", "gpu": "GPUs", "disk": "disk"}
_SIZES = frozenset({"memory", "disk"})
_MAX_REASONS = 3

TOPIC = "Queues"


def check_queue(facts: Facts) -> Iterator[Check]:
    """Run the checks for many waiting runs: how bad it is, why they wait, and what is scarce."""
    known = [(pool, pool.queue) for pool in facts.pools if pool.queue is not None]
    if not known:
        yield Question(TOPIC, "queue_age", "Are queue times short?").unknown("no pool leader answers")
        return
    for pool, queue in known:
        yield from _check_pool(facts, pool, queue)
    yield _circuits(facts)


def _check_pool(facts: Facts, pool: PoolFacts, queue: QueueView) -> Iterator[Check]:
    yield _oldest(pool, queue)
    if any(queue.waiting.values()):
        yield _waits_for(facts, pool)
        yield _capacity(facts, pool, queue)
    intake = sum(queue.intake.values())
    if intake:
        yield _intake(pool, intake)


def _oldest(pool: PoolFacts, queue: QueueView) -> Check:
    question = Question(TOPIC, "queue_age", f"Are queue times short in pool {pool.name}?")
    waiting = sum(queue.waiting.values())
    if not waiting or not queue.queues:
        return question.yes(f"{format_count(waiting, 'task')} queued" if waiting else "nothing queued")
    oldest_last = sorted(queue.queues, key=lambda one: one.since, reverse=True)
    by_priority = {one.priority: (queue.at - one.since).total_seconds() for one in oldest_last}
    oldest = max(by_priority.values())
    ages = ", ".join(f"of {name} for {format_seconds(age)}" for name, age in sorted(by_priority.items()))
    finding = f"{format_count(waiting, 'task')} queued, the oldest {ages}"
    if oldest < LONG_WAIT_SECONDS:
        return question.yes(finding)
    return question.no("queue_age.long", finding, "the next checks show the reasons", f"mainspring queue{pool.option}")


def _waits_for(facts: Facts, pool: PoolFacts) -> Check:
    """Check the reasons for waiting; tasks that can never start come first."""
    question = Question(TOPIC, "queue_reasons", f"Can all queued tasks in pool {pool.name} start?")
    if not pool.reasons:
        return question.unknown(facts.faults.get(REASONS) or "the pool leader gave no reasons")
    total = sum(one.tasks for one in pool.reasons)
    never = [one for one in pool.reasons if one.reason in NEVER_STARTS]
    if never:
        parts = [f"{one.tasks:,} {one.reason}, for example: {one.says}" for one in never]
        return question.no(
            "queue_reasons.never_start",
            f"{sum(one.tasks for one in never):,} of {total:,} can't: {'; '.join(parts)}",
            "start a matching worker, or change the requirements of the tasks",
            f"mainspring why {never[0].example}",
        )
    parts = [f"{one.tasks:,} of {total:,} {one.reason}" for one in pool.reasons[:_MAX_REASONS]]
    return question.yes(f"{', '.join(parts)}; most frequent: {pool.reasons[0].says}")


def _capacity(facts: Facts, pool: PoolFacts, queue: QueueView) -> Check:
    question = Question(TOPIC, "capacity", f"Is there free capacity in pool {pool.name}?")
    full, parts = [], []
    for resource, title in _NAMES.items():
        total, used = getattr(queue.capacity, resource) or 0, getattr(queue.used, resource) or 0
        if total:
            parts.append(f"{_format_amount(resource, used)} of {_format_amount(resource, total)} {title}")
            if used >= _FULL * total:
                full.append(title)
    if not parts:
        return question.no(
            "capacity.no_workers",
            "the pool has no capacity",
            "start a worker for this pool",
            f"mainspring worker --server {facts.url}",
        )
    if full:
        return question.no(
            "capacity.full",
            f"{' and '.join(full)} in use: {', '.join(parts)}",
            "add workers, or cancel runs that are not needed",
            f"mainspring tenants --pool {pool.name}",
        )
    return question.yes(f"{', '.join(parts)} in use")


def _intake(pool: PoolFacts, intake: int) -> Check:
    question = Question(TOPIC, "intake", f"Does intake keep up in pool {pool.name}?")
    if intake < _LARGE_INTAKE:
        return question.yes(f"{format_count(intake, 'run')} waiting")
    return question.no(
        "intake.backlog",
        f"{format_count(intake, 'run')} or more are waiting to be adopted",
        "accepted runs are not lost; they are adopted as other runs end",
        f"mainspring queue{pool.option}",
    )


def _circuits(facts: Facts) -> Check:
    question = Question(TOPIC, "circuits", "Are all circuits closed?")
    if (fault := facts.faults.get("breakers")) is not None:
        return question.unknown(fault)
    if not facts.breakers:
        return question.yes("no circuit is open")
    return question.no(
        "circuits.open",
        f"{format_count(len(facts.breakers), 'circuit is', 'circuits are')} open: "
        f"{format_list([_format_breaker(one) for one in facts.breakers], 2)}",
        "held tasks resume automatically when a probe attempt succeeds; fix the failing tasks",
        "mainspring dead-letters --limit 20",
    )


def _format_breaker(breaker: BreakerView) -> str:
    """Format an open circuit: the job and the reason. Other kinds name their subject in the reason."""
    return f"{breaker.subject}, {breaker.because}" if breaker.kind == "job" else breaker.because


def _format_amount(resource: str, amount: float) -> str:
    return format_bytes(int(amount)) if resource in _SIZES else f"{amount:g}"
