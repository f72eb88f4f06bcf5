"""For each reason: the situation is made, the diagnosis names the true cause, and what it advises changes the verdict.

Each act is carried out in a world of its own, and its effect is what was said. What is waited for happens, and it goes
on. Of what is unknown nothing is blamed, and nothing is advised.
"""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from mainspring.core.explain.diagnosis import Act, ActKind, Diagnosis, Foresight, Reason
from mainspring.core.model.task import TaskState
from mainspring.core.text.durations import seconds_of
from mainspring.shard.explain.advice import advise
from mainspring.shard.explain.diagnose import diagnose
from mainspring.shard.explain.forecast import copy_around
from tests.core.test_schedule_advice_comes_true import CASES as OF_SCHEDULES
from tests.shard import situations
from tests.shard.advice_cases import CASES, Case
from tests.shard.asking import blockers
from tests.shard.carrying_out import carry_out
from tests.shard.evictions import asked_to_go
from tests.shard.world import World

EACH = [(reason, case) for reason, cases in CASES.items() for case in cases]
PASSING = [(reason, case) for reason, case in EACH if case.passes is not None]
_NOW = re.compile(r"it would start now on (.+)")
_IN_PLACE_OF = re.compile(r"it would start on (.+) within .+, and ([\d,]+) tasks? would be stopped for it")
_ELSEWHERE = re.compile(r"it is (?:tried elsewhere|queued again) in (.+), unless its worker .+")
_ELSE = re.compile(r"it would wait for something else then \((.+)\)")


def ask(world: World, task_id: str, case: Case) -> Diagnosis:
    """The whole answer about a task."""
    memory = world.shard.memory
    found = diagnose(memory, task_id, world.now, age_seconds=case.age_seconds)
    assert found is not None
    return advise(found, copy_around(memory, task_id, world.now))


def made(case: Case) -> tuple[World, str]:
    """A world in which it is so, and the task."""
    world = World()
    return world, world.task(case.make(world)).id


@pytest.mark.parametrize(("reason", "case"), EACH)
def test_what_is_advised_comes_true(reason: Reason, case: Case) -> None:
    world, task_id = made(case)
    found = ask(world, task_id, case)

    assert found.reason is reason, found.verdict
    assert blockers(found) == case.blockers(world)
    assert [_short(act) for act in found.acts] == list(case.acts)

    for act in found.acts:
        world, task_id = made(case)
        if act.kind is not ActKind.WAIT:
            _check(world, carry_out(world, act, task_id), act, reason)
        elif act.effect:
            _check_wait(world, task_id, act.effect)
        world.check()


@pytest.mark.parametrize(("reason", "case"), PASSING)
def test_what_is_waited_for_happens_and_it_goes_on(reason: Reason, case: Case) -> None:
    world, task_id = made(case)
    found = ask(world, task_id, case)
    assert case.passes is not None

    case.passes(world)

    later = diagnose(world.shard.memory, task_id, world.now)
    assert later is None or later.reason is not reason
    if any(act.kind is ActKind.WAIT and not act.effect for act in found.acts):
        assert found.expected is not None
        assert found.expected.foresight is Foresight.RANGE
        assert world.task(task_id).worker_id is not None, later
    world.check()


def test_every_reason_has_its_case() -> None:
    assert set(CASES) | set(OF_SCHEDULES) == set(Reason)


def _short(act: Act) -> str:
    """The command of an act, or how its words begin."""
    return act.command or re.match(r"(Ask for|Do without|Wait|.*)", act.says)[0]  # type: ignore[index]


def _check(world: World, task_id: str, act: Act, reason: Reason) -> None:
    """The effect is what was said, at once or within a turn or two."""
    now, in_place, other = (said.fullmatch(act.effect) for said in (_NOW, _IN_PLACE_OF, _ELSE))
    if now is None and in_place is None and other is None:
        _SAID[act.effect](world, task_id)
        return
    world.advance(0 if world.task(task_id).worker_id else 1.1, heard=list(world.workers))
    if now is not None:
        assert world.task(task_id).worker_id == now[1], act
    elif in_place is not None:
        going = asked_to_go(world)
        assert len(going) == int(in_place[2]), act
        world.stop(*going)
        assert world.task(task_id).worker_id == in_place[1], act
    elif other is not None:
        found = diagnose(world.shard.memory, task_id, world.now)
        assert found is not None
        assert found.reason is not reason, act
        assert found.verdict.startswith(other[1]), act


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
    assert task.tries == 0, "the try does not count"


def _check_wait(world: World, task_id: str, effect: str) -> None:
    """What was said comes by itself."""
    elsewhere = _ELSEWHERE.fullmatch(effect)
    if elsewhere is None:
        _COMES[effect](world, task_id)
        return
    world.register("another")
    seconds = seconds_of(elsewhere[1])
    world.advance(seconds - 1, heard=["another", *_beating(world, effect)])
    assert world.task(task_id).worker_id == "w1"
    world.advance(2, heard=["another"])
    world.advance(30 if world.task(task_id).state is TaskState.PENDING else 0, heard=["another"])
    assert world.task(task_id).worker_id == "another"


def _beating(world: World, effect: str) -> list[str]:
    """A worker that does not say that it has something is heard of otherwise."""
    return ["w1"] if "says that it has it" in effect else []


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
    "it goes on by itself": _succeeds,
    "it is tried again once a probe has succeeded": _is_tried_again,
    "it ends soon": _ends,
}
_SAID = {
    "it starts once that has succeeded": _starts_after_upstream,
    "it would be queued again": _starts_anew,
}
