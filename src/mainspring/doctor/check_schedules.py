"""Checks of schedules: overdue ones, the latest window, and disabled ones."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from mainspring.definitions.quantities import say_seconds
from mainspring.doctor.facts import Facts
from mainspring.doctor.findings import Check, Topic, say_number, say_some

TOPIC = Topic("Schedules")
_MISSED = "late"
_LATELY = timedelta(days=1)


def ask_schedules(facts: Facts) -> Iterator[Check]:
    """Run the checks for missing scheduled runs."""
    yield _overdue(facts)
    yield _latest(facts)
    yield _disabled(facts)


def _overdue(facts: Facts) -> Check:
    question = "Have all due schedules fired?"
    if facts.checkup is None or facts.checkup.store_seconds is None:
        return TOPIC.unknown("overdue", question, "the store does not answer")
    late = [one for one in facts.checkup.overdue if facts.tenant is None or one.tenant == facts.tenant.name]
    if not late:
        return TOPIC.yes("overdue", question, "no schedule is overdue")
    named = [f"{one.tenant}/{one.schedule} by {say_seconds(one.seconds)}" for one in late]
    return TOPIC.no(
        "overdue.late",
        question,
        f"{say_number(len(late), 'schedule is', 'schedules are')} overdue: {say_some(named)}",
        "every server fires schedules: check the server logs for `triggers.failed`; meanwhile trigger it manually",
        f"mainspring trigger {late[0].schedule} -t {late[0].tenant}",
    )


def _latest(facts: Facts) -> Check:
    question = "Do schedules fire?"
    if (fault := facts.fault("upcoming")) is not None:
        return TOPIC.unknown("fires", question, fault)
    fires = [(one.last, one) for one in facts.upcoming if one.last is not None]
    missed = [(last, of) for last, of in fires if last.outcome == _MISSED and facts.at - last.decided_at < _LATELY]
    if missed:
        last, of = max(missed, key=lambda pair: pair[0].decided_at)
        ago = say_seconds((facts.at - last.decided_at).total_seconds())
        return TOPIC.no(
            "fires.missed",
            question,
            f"{say_number(len(missed), 'schedule')} missed the latest window: "
            f"{of.tenant}/{of.schedule} {ago} ago, {last.because}",
            "no server fired it in time: check why, then backfill the missed windows",
            f"mainspring why {of.schedule} -t {of.tenant}",
        )
    next_one = min(facts.upcoming, key=lambda one: one.window_at, default=None)
    parts = []
    if fires:
        last, of = max(fires, key=lambda pair: pair[0].decided_at)
        ago = say_seconds((facts.at - last.decided_at).total_seconds())
        parts.append(f"{of.tenant}/{of.schedule} {_OUTCOMES.get(last.outcome, last.outcome)} {ago} ago")
    if next_one is not None:
        left = say_seconds((next_one.window_at - facts.at).total_seconds())
        parts.append(f"next: {next_one.tenant}/{next_one.schedule} in {left}")
    return TOPIC.yes("fires", question, "; ".join(parts) or "none is due within a day")


_OUTCOMES = {"ran": "ran", "waiting": "is waiting, decided", "skipped": "was skipped", _MISSED: "was too late"}


def _disabled(facts: Facts) -> Check:
    question = "Are all schedules enabled?"
    if (fault := facts.fault("schedules")) is not None:
        return TOPIC.unknown("disabled", question, fault)
    off = [one for one in facts.schedules if one.state == "disabled" and one.because]
    paused = sum(one.state == "paused" for one in facts.schedules)
    rest = f"; {say_number(paused, 'is', 'are')} paused" if paused else ""
    if not off:
        return TOPIC.yes("disabled", question, f"{say_number(len(facts.schedules), 'schedule')}{rest}")
    named = [f"{one.tenant}/{one.name}, {one.because}" for one in off]
    return TOPIC.no(
        "disabled.after_failures",
        question,
        f"{say_number(len(off), 'schedule is', 'schedules are')} disabled: {say_some(named, 1)}{rest}",
        "fix the failing runs, then resume the schedule",
        f"mainspring resume {off[0].name} -t {off[0].tenant}",
    )
