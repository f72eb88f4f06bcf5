"""For each reason: the diagnosis of a situation names the true cause, and its suggestions change the verdict.

Each suggestion is executed in a world of its own, and has the effect that it describes. Waiting has its effect as well.
An unknown cause has neither blockers nor suggestions.
"""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from mainspring.core.explain import advice_messages as words
from mainspring.core.explain.diagnosis import Diagnosis, ExpectedKind, Reason, Suggestion, SuggestionKind
from mainspring.core.model.task import TaskState
from mainspring.core.text.durations import format_seconds, parse_seconds
from mainspring.shard.explain.advice import advise
from mainspring.shard.explain.diagnose import diagnose
from mainspring.shard.explain.forecast import take_snapshot
from tests.core.test_schedule_suggestions import CASES as OF_SCHEDULES
from tests.shard import situations
from tests.shard.advice_cases import CASES, Case
from tests.shard.carrying_out import carry_out
from tests.shard.diagnoses import blockers
from tests.shard.preemption_scenes import asked_to_go
from tests.shard.world import World

EACH = [(reason, case) for reason, cases in CASES.items() for case in cases]
PASSING = [(reason, case) for reason, case in EACH if case.passes is not None]
_SECONDS = 987.0


def _pattern(message: str, *placeholders: str) -> re.Pattern[str]:
    """A pattern of a message of the catalogue, with a group for each placeholder."""
    pattern = re.escape(message)
    for placeholder in placeholders:
        pattern = pattern.replace(re.escape(placeholder), "(.+)")
    return re.compile(pattern)


_NOW = _pattern(words.starts_on("WORKER", 0, 0), "WORKER")
_IN_PLACE_OF = {
    count: _pattern(words.starts_on("WORKER", count, _SECONDS), "WORKER", format_seconds(_SECONDS)) for count in (1, 2)
}
_ELSE = _pattern(words.then_waits("VERDICT"), "VERDICT")
_SILENT = _pattern(words.tried_elsewhere(_SECONDS), format_seconds(_SECONDS))
_UNACKNOWLEDGED = _pattern(words.requeued_in(_SECONDS), format_seconds(_SECONDS))


def ask(world: World, task_id: str, case: Case) -> Diagnosis:
    """The complete diagnosis of a task."""
    memory = world.shard.memory
    found = diagnose(memory, task_id, world.now, age_seconds=case.age_seconds)
    assert found is not None
    return advise(found, take_snapshot(memory, task_id, world.now))


def made(case: Case) -> tuple[World, str]:
    """The situation, and the task."""
    world = World()
    return world, world.task(case.make(world)).id


@pytest.mark.parametrize(("reason", "case"), EACH)
def test_suggestions_have_their_effect(reason: Reason, case: Case) -> None:
    world, task_id = made(case)
    found = ask(world, task_id, case)

    assert found.reason is reason, found.verdict
    assert blockers(found) == case.blockers(world)
    assert [_short(action) for action in found.suggestions] == list(case.suggestions)

    for action in found.suggestions:
        world, task_id = made(case)
        if action.kind is not SuggestionKind.WAIT:
            _check(world, carry_out(world, action, task_id), action, reason)
        elif action.effect:
            _check_wait(world, task_id, action.effect)
        world.check()


@pytest.mark.parametrize(("reason", "case"), PASSING)
def test_waiting_has_its_effect(reason: Reason, case: Case) -> None:
    world, task_id = made(case)
    found = ask(world, task_id, case)
    assert case.passes is not None

    case.passes(world)

    later = diagnose(world.shard.memory, task_id, world.now)
    assert later is None or later.reason is not reason
    if any(action.kind is SuggestionKind.WAIT and not action.effect for action in found.suggestions):
        assert found.expected is not None
        assert found.expected.kind is ExpectedKind.RANGE
        assert world.task(task_id).worker_id is not None, later
    world.check()


def test_every_reason_has_its_case() -> None:
    assert set(CASES) | set(OF_SCHEDULES) == set(Reason)


def _short(action: Suggestion) -> str:
    """The command of a suggestion, or its first word."""
    return action.command or action.says.partition(" ")[0]


def _check(world: World, task_id: str, action: Suggestion, reason: Reason) -> None:
    """The effect is as described, at once or within a turn or two."""
    now, other = _NOW.fullmatch(action.effect), _ELSE.fullmatch(action.effect)
    found = ((count, pattern.fullmatch(action.effect)) for count, pattern in _IN_PLACE_OF.items())
    victims, in_place = next(((count, one) for count, one in found if one is not None), (0, None))
    if now is None and in_place is None and other is None:
        _SAID[action.effect](world, task_id)
        return
    world.advance(0 if world.task(task_id).worker_id else 1.1, heard=list(world.workers))
    if now is not None:
        assert world.task(task_id).worker_id == now[1], action
    elif in_place is not None:
        going = asked_to_go(world)
        assert len(going) == victims, action
        world.stop(*going)
        assert world.task(task_id).worker_id == in_place[1], action
    elif other is not None:
        then = diagnose(world.shard.memory, task_id, world.now)
        assert then is not None
        assert then.reason is not reason, action
        assert then.verdict.startswith(other[1]), action


def _starts_after_upstream(world: World, task_id: str) -> None:
    assert world.task(task_id).worker_id is None
    world.run_through("a")
    world.succeed("b")
    assert world.task(task_id).worker_id is not None


def _starts_anew(world: World, task_id: str) -> None:
    if world.task(task_id).state is TaskState.QUEUED:
        world.register("another")
    task = world.task(task_id)
    assert world.path(task_id)[-2:] == [TaskState.QUEUED, TaskState.ASSIGNED]
    assert task.tries == 0, "the attempt does not count"


def _check_wait(world: World, task_id: str, effect: str) -> None:
    """The described effect comes without an action."""
    elsewhere = _SILENT.fullmatch(effect) or _UNACKNOWLEDGED.fullmatch(effect)
    if elsewhere is None:
        _COMES[effect](world, task_id)
        return
    world.register("another")
    seconds = parse_seconds(elsewhere[1])
    world.advance(seconds - 1, heard=["another", *_beating(world, effect)])
    assert world.task(task_id).worker_id == "w1"
    world.advance(2, heard=["another"])
    world.advance(30 if world.task(task_id).state is TaskState.PENDING else 0, heard=["another"])
    assert world.task(task_id).worker_id == "another"


def _beating(world: World, effect: str) -> list[str]:
    """The workers that send heartbeats: also one that has not acknowledged a task."""
    return ["w1"] if _UNACKNOWLEDGED.fullmatch(effect) else []


def _succeeds(world: World, task_id: str) -> None:
    world.succeed(task_id)
    assert world.task(task_id).state is TaskState.SUCCEEDED


def _is_tried_again(world: World, task_id: str) -> None:
    situations.probe_succeeds(world)
    situations.comes_back(world)
    assert world.task(task_id).worker_id is not None


def _ends(world: World, task_id: str) -> None:
    kill_at = world.task(task_id).stop.kill_at  # type: ignore[union-attr]
    assert kill_at - world.now <= timedelta(minutes=2)
    world.stop(task_id)
    assert world.task(task_id).state is not TaskState.RUNNING


_COMES = {
    words.GOES_ON: _succeeds,
    words.PROBED: _is_tried_again,
    words.ENDS: _ends,
}
_SAID = {
    words.STARTS_AFTER: _starts_after_upstream,
    words.QUEUED_AGAIN: _starts_anew,
}
