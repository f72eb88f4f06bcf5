"""Does work start late? Which jobs did, by how much, and whether the servers or the workers are short; open alerts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mainspring.definitions.quantities import say_seconds
from mainspring.doctor.facts import Facts, LateJob
from mainspring.doctor.findings import Check, Topic, say_number, say_some

LATE_SECONDS = 60.0
"""A run whose first task starts so long after it could is late, unless it has promised to be done by a time."""

TOPIC = Topic("Starting late")


def ask_lateness(facts: Facts) -> Iterator[Check]:
    """The questions of somebody whose pipelines start late."""
    yield _late(facts)
    yield _alerts(facts)


def _late(facts: Facts) -> Check:
    question = "Did runs of the last day start in time?"
    if (fault := facts.fault("runs")) is not None:
        return TOPIC.unknown(question, fault)
    runs = sum(one.runs for one in facts.late)
    if not runs:
        return TOPIC.unknown(question, "no run has ended within a day")
    late = [one for one in facts.late if one.missed or one.p95_seconds >= LATE_SECONDS]
    if not late:
        worst, promised = facts.late[0], sum(one.promised for one in facts.late)
        kept = f"; {say_number(promised, 'deadline')} kept" if promised else ""
        return TOPIC.yes(
            question,
            f"of {say_number(runs, 'run')} the latest were those of {worst.tenant}/{worst.job}: "
            f"{say_seconds(worst.p95_seconds)} (95 of 100 start sooner){kept}",
        )
    return TOPIC.no(question, f"late were {say_some([*map(_say, late)])}", *_bottleneck(facts, late[0].job))


def _say(one: LateJob) -> str:
    if one.missed:
        return f"{one.tenant}/{one.job}, which missed {one.missed:,} of {say_number(one.promised, 'deadline')}"
    return f"{one.tenant}/{one.job} by {say_seconds(one.p95_seconds)} ({say_number(one.runs, 'run')})"


def _bottleneck(facts: Facts, job: str) -> tuple[str, str]:
    """What is short, as far as it can be seen now: those who decide, those who work, or neither."""
    held = next((pool.queue.held_from for pool in facts.pools if pool.queue and pool.queue.held_from), None)
    if held or (facts.level is not None and facts.level.level != "normal"):
        return "the servers or their store are the bottleneck: the questions above say what is wrong", ""
    if any(sum(pool.queue.waiting.values()) for pool in facts.pools if pool.queue is not None):
        return "work waits now as well: the workers are the bottleneck, or what their quotas allow", "mainspring queue"
    return "nothing waits now: it was a burst; spread the schedules (--jitter), or give it a higher priority", (
        f"mainspring history {job} --days 7"
    )


def _alerts(facts: Facts) -> Check:
    question = "Is no alert open?"
    if (fault := facts.fault("alerts")) is not None:
        return TOPIC.unknown(question, fault)
    if not facts.alerts:
        return TOPIC.yes(question, "none")
    kinds = Counter(alert.kind for alert in facts.alerts)
    first = next((one for one in facts.alerts if one.severity == "high"), facts.alerts[0])
    counted = ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common(5))
    return TOPIC.no(question, f"{counted}; {first.summary}", "each says what to do", "mainspring alerts")
