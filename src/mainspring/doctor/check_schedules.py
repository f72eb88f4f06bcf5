"""Checks of schedules: overdue ones, the latest window, and disabled ones."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from mainspring.core.text.durations import format_seconds
from mainspring.doctor.facts import Facts
from mainspring.doctor.health_check import Check, Question, format_count, format_list

TOPIC = "Schedules"
_MISSED = "late"
_RECENT = timedelta(days=1)


def check_schedules(facts: Facts) -> Iterator[Check]:
    """Run the checks for missing scheduled runs."""
    yield _overdue(facts)
    yield _latest(facts)
    yield _disabled(facts)


def _overdue(facts: Facts) -> Check:
    question = Question(TOPIC, "overdue", "Have all due schedules fired?")
    if facts.server_health is None or facts.server_health.store_seconds is None:
        return question.unknown("the store does not answer")
    late = [one for one in facts.server_health.overdue if facts.tenant is None or one.tenant == facts.tenant.name]
    if not late:
        return question.yes("no schedule is overdue")
    named = [f"{one.tenant}/{one.schedule} by {format_seconds(one.seconds)}" for one in late]
    return question.no(
        "overdue.late",
        f"{format_count(len(late), 'schedule is', 'schedules are')} overdue: {format_list(named)}",
        "check the server logs for `background.failed` and `triggers.unavailable`; meanwhile trigger it manually",
        f"mainspring trigger {late[0].schedule} -t {late[0].tenant}",
    )


def _latest(facts: Facts) -> Check:
    question = Question(TOPIC, "fires", "Do schedules fire?")
    if (fault := facts.faults.get("upcoming")) is not None:
        return question.unknown(fault)
    fires = [(one.last, one) for one in facts.upcoming if one.last is not None]
    missed = [(last, of) for last, of in fires if last.outcome == _MISSED and facts.at - last.decided_at < _RECENT]
    if missed:
        last, of = max(missed, key=lambda pair: pair[0].decided_at)
        return question.no(
            "fires.missed",
            f"{format_count(len(missed), 'schedule')} missed the latest window: "
            f"{of.tenant}/{of.schedule} {facts.age(last.decided_at)} ago, {last.because}",
            "no server fired it in time: check why, then backfill the missed windows",
            f"mainspring why {of.schedule} -t {of.tenant}",
        )
    next_one = min(facts.upcoming, key=lambda one: one.window_at, default=None)
    parts = []
    if fires:
        last, of = max(fires, key=lambda pair: pair[0].decided_at)
        outcome = _OUTCOMES.get(last.outcome, last.outcome)
        parts.append(f"{of.tenant}/{of.schedule} {outcome} {facts.age(last.decided_at)} ago")
    if next_one is not None:
        left = format_seconds((next_one.window_at - facts.at).total_seconds())
        parts.append(f"next: {next_one.tenant}/{next_one.schedule} in {left}")
    return question.yes("; ".join(parts) or "none is due within a day")


_OUTCOMES = {"ran": "ran", "waiting": "is waiting, decided", "skipped": "was skipped", _MISSED: "was too late"}


def _disabled(facts: Facts) -> Check:
    question = Question(TOPIC, "disabled", "Are all schedules enabled?")
    if (fault := facts.faults.get("schedules")) is not None:
        return question.unknown(fault)
    off = [one for one in facts.schedules if one.state == "disabled" and one.because]
    paused = sum(one.state == "paused" for one in facts.schedules)
    rest = f"; {format_count(paused, 'is', 'are')} paused" if paused else ""
    if not off:
        return question.yes(f"{format_count(len(facts.schedules), 'schedule')}{rest}")
    named = [f"{one.tenant}/{one.name}, {one.because}" for one in off]
    return question.no(
        "disabled.after_failures",
        f"{format_count(len(off), 'schedule is', 'schedules are')} disabled: {format_list(named, 1)}{rest}",
        "fix the failing runs, then resume the schedule",
        f"mainspring resume {off[0].name} -t {off[0].tenant}",
    )
