"""Checks for late starts: which jobs, by how much, and whether servers or workers are the bottleneck; open alerts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mainspring.core.text.durations import format_seconds
from mainspring.doctor.facts import Facts, LateJob
from mainspring.doctor.health_check import Check, Question, format_count, format_list

LATE_SECONDS = 60.0
"""Start delay from which a run without a deadline counts as late."""

TOPIC = "Starting late"


def check_lateness(facts: Facts) -> Iterator[Check]:
    """Run the checks for pipelines that start late."""
    yield _late(facts)
    yield _alerts(facts)


def _late(facts: Facts) -> Check:
    question = Question(TOPIC, "start_delay", "Did runs of the last day start on time?")
    if (fault := facts.faults.get("runs")) is not None:
        return question.unknown(fault)
    runs = sum(one.runs for one in facts.late)
    if not runs:
        return question.unknown("no run has ended within a day")
    late = [one for one in facts.late if one.missed or one.p95_seconds >= LATE_SECONDS]
    if not late:
        worst, promised = facts.late[0], sum(one.promised for one in facts.late)
        kept = f"; {format_count(promised, 'deadline')} met" if promised else ""
        return question.yes(
            f"{format_count(runs, 'run')}; slowest start: {worst.tenant}/{worst.job}, "
            f"{format_seconds(worst.p95_seconds)} at p95{kept}"
        )
    reason, advice, command = _bottleneck(facts, late[0].job)
    finding = f"late: {format_list([*map(_format_late, late)])}"
    return question.no(f"start_delay.{reason}", finding, advice, command)


def _format_late(one: LateJob) -> str:
    if one.missed:
        return f"{one.tenant}/{one.job}, missed {one.missed:,} of {format_count(one.promised, 'deadline')}"
    return f"{one.tenant}/{one.job} by {format_seconds(one.p95_seconds)} ({format_count(one.runs, 'run')})"


def _bottleneck(facts: Facts, job: str) -> tuple[str, str, str]:
    """Return the bottleneck as far as it shows now (servers, workers or a burst), with advice and a command."""
    held = next(
        (pool.queue.dispatch_paused_from for pool in facts.pools if pool.queue and pool.queue.dispatch_paused_from),
        None,
    )
    if held or (facts.level is not None and facts.level.level != "normal"):
        return "slow_servers", "the servers or their store are the bottleneck: see the checks above", ""
    if any(sum(pool.queue.waiting.values()) for pool in facts.pools if pool.queue is not None):
        advice = "tasks are queued now too: workers or tenant quotas are the bottleneck"
        return "few_workers", advice, "mainspring queue"
    advice = "nothing is queued now, so it was a burst: spread the schedules (--jitter), or raise the priority"
    return "burst", advice, f"mainspring history {job} --days 7"


def _alerts(facts: Facts) -> Check:
    question = Question(TOPIC, "alerts", "Are there no open alerts?")
    if (fault := facts.faults.get("alerts")) is not None:
        return question.unknown(fault)
    if not facts.alerts:
        return question.yes("none")
    kinds = Counter(alert.kind for alert in facts.alerts)
    first = next((one for one in facts.alerts if one.severity == "high"), facts.alerts[0])
    counted = ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common(5))
    return question.no("alerts.open", f"{counted}; {first.summary}", "each alert says what to do", "mainspring alerts")
