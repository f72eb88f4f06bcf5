"""Each suggestion for a schedule is carried out, and has the described effect."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from mainspring.core.explain.diagnosis import Reason, Suggestion, SuggestionKind
from mainspring.core.model.run import RunState
from mainspring.core.schedules import schedule_actions
from mainspring.core.schedules.backfill import BackfillCommand
from mainspring.core.schedules.evaluation import decode_spec
from mainspring.core.schedules.schedule_spec import After, Condition, Overlap
from mainspring.core.schedules.triggers import EventTrigger
from tests.core.builders import NOON
from tests.core.schedule_evaluations import FakeServer, a_spec, act, an_event
from tests.core.test_schedule_diagnosis import HOUR, MINUTE, TEN_MINUTES, why
from tests.shard.carrying_out import parse

_RESUME, _TRIGGER = "mainspring resume hourly", "mainspring trigger hourly"


class Case(NamedTuple):
    """A situation in which a schedule has a reason."""

    make: Callable[[], FakeServer]
    now: datetime
    blockers: Callable[[FakeServer], list[str]] = lambda _: []
    suggestions: tuple[str, ...] = ()
    """The commands that are advised, or the words if there is none to type."""
    passes: Callable[[FakeServer, datetime], object] | None = None
    """The event that ends the wait."""


def _for_its_time() -> FakeServer:
    return FakeServer(a_spec())


def _for_an_event() -> FakeServer:
    return FakeServer(a_spec(EventTrigger(type="orders.ready")))


def _for_a_file() -> FakeServer:
    desk = FakeServer(a_spec(condition=Condition(file_exists="/data/ready")))
    desk.due(NOON + HOUR)
    return desk


def _paused() -> FakeServer:
    desk = FakeServer(a_spec())
    desk.settle(NOON + MINUTE, act(schedule_actions.pause, by="maria", why="warehouse move"))
    return desk


def _disabled() -> FakeServer:
    return FakeServer(a_spec(enabled=False))


def _failed_too_often() -> FakeServer:
    desk = FakeServer(a_spec(max_consecutive_failures=1))
    desk.due(NOON + HOUR)
    desk.end(RunState.FAILED, NOON + HOUR + MINUTE)
    return desk


def _one_is_going() -> FakeServer:
    desk = FakeServer(a_spec(overlap=Overlap.QUEUE))
    desk.due(NOON + HOUR)
    desk.due(NOON + 2 * HOUR)
    return desk


def _after_another() -> FakeServer:
    desk = FakeServer(a_spec(after=After(job="extract")))
    desk.other = FakeServer(a_spec(job="extract"), name="sched_2")
    desk.other.due(NOON + HOUR)
    desk.due(NOON + HOUR + MINUTE)
    return desk


def _other_succeeds(desk: FakeServer, now: datetime) -> None:
    assert desk.other is not None
    desk.other.end(RunState.SUCCEEDED, now)
    desk.sweep(now)


def _backfilled() -> FakeServer:
    """Of three windows one runs at a time."""
    desk = FakeServer(a_spec())
    request = BackfillCommand(since=NOON - 3 * HOUR, before=NOON, max_parallel=1, by="ann")
    desk.backfill(NOON + MINUTE, request)
    return desk


def _going(desk: FakeServer) -> list[str]:
    return [one.run_id or "" for one in desk.case().active]


CASES: dict[Reason, tuple[Case, ...]] = {
    Reason.WAITING_TIME: (
        Case(_for_its_time, NOON, suggestions=("", _TRIGGER), passes=lambda desk, _: desk.due(NOON + HOUR)),
    ),
    Reason.WAITING_EVENT: (
        Case(
            _for_an_event,
            NOON,
            lambda _: ["orders.ready"],
            ("", "mainspring events send orders.ready", _TRIGGER),
            lambda desk, now: desk.receive(now, an_event(1, now)),
        ),
        Case(
            _for_a_file, NOON + HOUR + MINUTE, suggestions=("",), passes=lambda desk, now: desk.answer(now, exists=True)
        ),
    ),
    Reason.WAITING_UPSTREAM: (
        Case(
            _after_another,
            NOON + HOUR + 2 * MINUTE,
            lambda desk: _going(desk.other or desk),
            ("mainspring why extract",),
            _other_succeeds,
        ),
    ),
    Reason.CONCURRENCY: (
        Case(
            _one_is_going,
            NOON + 2 * HOUR + MINUTE,
            _going,
            ("", "mainspring cancel RUN"),
            lambda desk, now: desk.end(RunState.SUCCEEDED, now),
        ),
    ),
    Reason.BACKFILL_THROTTLED: (
        Case(_backfilled, NOON + 2 * MINUTE, _going, ("",), lambda desk, now: desk.end(RunState.SUCCEEDED, now)),
    ),
    Reason.PAUSED: (
        Case(_paused, NOON + HOUR, lambda _: ["maria"], (_RESUME,)),
        Case(_disabled, NOON, suggestions=("Enable it in its definition",)),
    ),
    Reason.QUARANTINED: (Case(_failed_too_often, NOON + HOUR + 2 * MINUTE, suggestions=(_RESUME,)),),
    Reason.SCHEDULER_LAG: (Case(_for_its_time, NOON + HOUR + MINUTE, passes=lambda desk, now: desk.due(now)),),
}
EACH = [(reason, case) for reason, cases in CASES.items() for case in cases]
PASSING = [(reason, case) for reason, case in EACH if case.passes is not None]


@pytest.mark.parametrize(("reason", "case"), EACH)
def test_suggestions_have_their_effect(reason: Reason, case: Case) -> None:
    desk = case.make()
    found = why(desk, case.now, duration=TEN_MINUTES)

    assert found.reason is reason, found.verdict
    assert [one.id for one in found.blockers] == case.blockers(desk)
    assert [_short(action) for action in found.suggestions] == list(case.suggestions)

    for number, action in enumerate(found.suggestions):
        if action.kind is not SuggestionKind.WAIT:
            desk = case.make()  # whose runs have other ids
            _carry_out(desk, why(desk, case.now).suggestions[number], case.now)
            _check(desk, action, case)


@pytest.mark.parametrize(("reason", "case"), PASSING)
def test_waiting_has_its_effect(reason: Reason, case: Case) -> None:
    desk = case.make()
    before, waited = why(desk, case.now).verdict, len(desk.runs)
    assert case.passes is not None

    case.passes(desk, case.now)

    assert len(desk.runs) == waited + 1
    assert why(desk, case.now).verdict != before


def _short(action: Suggestion) -> str:
    command = action.command or ("" if action.kind is SuggestionKind.WAIT else action.says)
    return "mainspring cancel RUN" if command.startswith("mainspring cancel run_") else command


def _carry_out(desk: FakeServer, action: Suggestion, now: datetime) -> None:
    if not action.command:
        assert action.says == "Enable it in its definition"
        spec = replace(decode_spec(desk.row), enabled=True)
        desk.settle(now, act(schedule_actions.change, spec, by="ann"))
        return
    path, said = parse(action.command)
    if path == "resume":
        assert said["ids"] == (desk.row.name,)
        desk.settle(now, act(schedule_actions.resume, by="ann"))
    elif path == "trigger":
        assert said["name"] == desk.row.name
        desk.trigger(now, schedule_actions.TriggerCommand(by="ann"))
    elif path == "events send":
        desk.receive(now, an_event(1, now, type=said["kind"]))
    elif path == "cancel":
        desk.end(RunState.CANCELLED, now, run_id=said["ids"][0])
    else:
        raise AssertionError(f"unknown command: {action.command}")


def _check(desk: FakeServer, action: Suggestion, case: Case) -> None:
    """The effect is as described."""
    runs = len(desk.runs) - len(case.make().runs)
    if action.effect.startswith("its next window is "):
        found = why(desk, case.now)
        assert (found.reason, runs) == (Reason.WAITING_TIME, 0)
        assert action.effect.removeprefix("its next window is ") in found.verdict
        return
    assert action.effect
    assert runs == 1
