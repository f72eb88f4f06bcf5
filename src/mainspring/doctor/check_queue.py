"""Does much wait? How long the oldest has, what most of it waits for, whether there is room, what fails alike."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from mainspring.definitions.quantities import say_bytes, say_seconds
from mainspring.doctor.facts import NEVER, REASONS, Facts, PoolFacts
from mainspring.doctor.findings import Check, Topic, say_number, say_some
from mainspring.protocol.rest.schedules import BreakerView
from mainspring.protocol.rest.sharing import LineView, QueueView

LONG_SECONDS = 300.0
"""Work that waits for longer than this is a problem, unless a person or a limit holds it."""
_MANY_IN_INTAKE = 10_000
_FULL = 0.95
_NAMES = {"cpu": "cores", "memory": "memory", "gpu": "GPUs", "disk": "disk"}
_SIZES = frozenset({"memory", "disk"})
_MOST_REASONS = 3

TOPIC = Topic("What waits")


def ask_queue(facts: Facts) -> Iterator[Check]:
    """The questions of somebody who sees many runs waiting: first how bad it is, then what for, then what is short."""
    known = [(pool, pool.queue) for pool in facts.pools if pool.queue is not None]
    if not known:
        yield TOPIC.unknown("Does nothing wait for long?", "no leader says what waits")
        return
    for pool, queue in known:
        yield from _ask_pool(facts, pool, queue)
    yield _fails_alike(facts)


def _ask_pool(facts: Facts, pool: PoolFacts, queue: QueueView) -> Iterator[Check]:
    yield _oldest(pool, queue)
    if any(queue.waiting.values()):
        yield _waits_for(facts, pool)
        yield _room(facts, pool, queue)
    intake = sum(queue.intake.values())
    if intake:
        yield _taken_in(pool, intake)


def _oldest(pool: PoolFacts, queue: QueueView) -> Check:
    question = f"Does nothing wait for long in pool {pool.name}?"
    waiting = sum(queue.waiting.values())
    if not waiting or not queue.lines:
        return TOPIC.yes(
            question, "nothing waits" if not waiting else f"{say_number(waiting, 'task waits', 'tasks wait')}"
        )
    by_priority = {
        line.priority: _age(line, queue.at) for line in sorted(queue.lines, key=lambda one: one.since, reverse=True)
    }
    oldest = max(by_priority.values())
    ages = ", ".join(f"of {name} for {say_seconds(age)}" for name, age in sorted(by_priority.items()))
    finding = f"{say_number(waiting, 'task waits', 'tasks wait')}, the oldest {ages}"
    if oldest < LONG_SECONDS:
        return TOPIC.yes(question, finding)
    return TOPIC.no(question, finding, "what follows says what for", f"mainspring queue{_option(pool)}")


def _waits_for(facts: Facts, pool: PoolFacts) -> Check:
    """What most of it waits for; what will never start comes first, as nobody else will tell."""
    question = f"Will all that waits in pool {pool.name} start?"
    if not pool.reasons:
        return TOPIC.unknown(question, facts.fault(REASONS) or "nobody says what it waits for")
    total = sum(one.tasks for one in pool.reasons)
    never = [one for one in pool.reasons if one.reason in NEVER]
    if never:
        parts = [f"{one.tasks:,} {one.reason}, such as: {one.says}" for one in never]
        return TOPIC.no(
            question,
            f"{sum(one.tasks for one in never):,} of {total:,} not: {'; '.join(parts)}",
            "start a worker that has what they ask for, or change what they ask for",
            f"mainspring why {never[0].example}",
        )
    parts = [f"{one.tasks:,} of {total:,} {one.reason}" for one in pool.reasons[:_MOST_REASONS]]
    return TOPIC.yes(question, f"{', '.join(parts)}; the first: {pool.reasons[0].says}")


def _room(facts: Facts, pool: PoolFacts, queue: QueueView) -> Check:
    question = f"Is there room in pool {pool.name}?"
    full, parts = [], []
    for resource, title in _NAMES.items():
        whole, used = getattr(queue.capacity, resource) or 0, getattr(queue.used, resource) or 0
        if whole:
            parts.append(f"{_say(resource, used)} of {_say(resource, whole)} {title}")
            if used >= _FULL * whole:
                full.append(title)
    if not parts:
        return TOPIC.no(
            question, "there is none at all", "start a worker there", f"mainspring worker --server {facts.url}"
        )
    if full:
        return TOPIC.no(
            question,
            f"{' and '.join(full)} are in use: {', '.join(parts)}",
            "add workers, or cancel what is not needed",
            f"mainspring tenants --pool {pool.name}",
        )
    return TOPIC.yes(question, f"{', '.join(parts)} in use")


def _taken_in(pool: PoolFacts, intake: int) -> Check:
    question = f"Are runs taken in, in pool {pool.name}?"
    if intake < _MANY_IN_INTAKE:
        return TOPIC.yes(question, f"{say_number(intake, 'run waits', 'runs wait')} to be")
    return TOPIC.no(
        question,
        f"{say_number(intake, 'run')} or more are not, as so much waits before them",
        "nothing of them is lost; they are taken in as others end",
        f"mainspring queue{_option(pool)}",
    )


def _fails_alike(facts: Facts) -> Check:
    question = "Are all circuits closed?"
    if (fault := facts.fault("breakers")) is not None:
        return TOPIC.unknown(question, fault)
    if not facts.breakers:
        return TOPIC.yes(question, "no circuit is open")
    return TOPIC.no(
        question,
        f"{say_number(len(facts.breakers), 'circuit is', 'circuits are')} open: "
        f"{say_some([_say_breaker(one) for one in facts.breakers], 2)}",
        "what is held goes on by itself once one try succeeds; look at what fails",
        "mainspring dead-letters --limit 20",
    )


def _say_breaker(breaker: BreakerView) -> str:
    """What is held back, and why; what fails alike is in the reason already."""
    return f"{breaker.subject}, {breaker.because}" if breaker.kind == "job" else breaker.because


def _age(line: LineView, now: datetime) -> float:
    return (now - line.since).total_seconds()


def _option(pool: PoolFacts) -> str:
    return "" if pool.name == "default" else f" --pool {pool.name}"


def _say(resource: str, amount: float) -> str:
    return say_bytes(int(amount)) if resource in _SIZES else f"{amount:g}"
