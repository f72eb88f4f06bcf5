"""What-if: the result, and the effect of the real change."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

import pytest

from mainspring.core.explain.diagnosis import Diagnosis, Expected, ExpectedKind, Reason
from mainspring.core.explain.what_if import Outcome, parse_hypothesis
from mainspring.core.fairness.freezes import FreezeKind
from mainspring.core.model.task import Priority
from mainspring.shard import events as happened
from mainspring.shard.explain.diagnose import diagnose
from mainspring.shard.explain.forecast import take_snapshot, what_if
from tests.shard import hypothesis_scenarios, jobs, sharing_rules, situations
from tests.shard.mixed_load import MixedLoad
from tests.shard.world import World

SITUATIONS = 50


class Seen(NamedTuple):
    """A hypothesis in one situation, and its effect."""

    kind: str
    was: Diagnosis
    said: Outcome
    began: datetime | None
    """When it started, if not at once."""


@pytest.fixture(scope="module")
def seen() -> list[Seen]:
    """In each situation one change is evaluated and then made, and the result for the next turn is right."""
    return [_try(seed) for seed in range(SITUATIONS)]


def test_hypotheses_come_true(seen: list[Seen]) -> None:
    """Each situation is checked when it is made (`_check`). Here: they are of different kinds."""
    starting = [one for one in seen if one.said.starts_now]
    assert len(starting) >= 15
    assert len([one for one in starting if one.said.victims]) >= 3
    assert len([one for one in seen if not one.said.starts_now]) >= 15


def test_every_kind_of_change_changes_something(seen: list[Seen]) -> None:
    changes = {one.kind for one in seen if one.said.starts_now or one.said.reason is not one.was.reason}
    assert changes == set(hypothesis_scenarios.KINDS)


def test_hypothetical_starts_are_within_their_ranges(seen: list[Seen]) -> None:
    """At least 80 % of the ranges of starts that are not at once; most have a range."""
    later = [one for one in seen if not one.said.starts_now]
    ranges = [one for one in later if one.said.expected.kind is ExpectedKind.RANGE]
    true = [one for one in ranges if one.began is not None and _is_in(one.said.expected, one.began)]
    assert len(ranges) >= len(later) / 2
    assert len(true) >= 0.8 * len(ranges)


def test_never_means_never(seen: list[Seen]) -> None:
    never = [one for one in seen if one.said.expected.kind is ExpectedKind.NEVER]
    assert never
    assert all(one.began is None for one in never)


def _try(seed: int) -> Seen:
    load, task, words = hypothesis_scenarios.situation(seed)
    was = diagnose(load.shard.memory, task.id, load.now)
    assert was is not None
    said = what_if(take_snapshot(load.shard.memory, task.id, load.now), parse_hypothesis([words]))
    task_id = hypothesis_scenarios.make(load, task, parse_hypothesis([words]))
    _check(load, task_id, said, f"{seed}: {words} for {task}: {said}")
    if not said.starts_now:
        latest = said.expected.latest or load.now + timedelta(seconds=60)
        load.advance_until([task_id], (latest - load.now).total_seconds() + 1)
    kinds = hypothesis_scenarios.KINDS
    return Seen(kinds[seed % len(kinds)], was, said, load.first_starts.get(task_id))


def _check(load: MixedLoad, task_id: str, said: Outcome, about: str) -> None:
    """The result for the next turn, or for the time after the preemption, is right."""
    if said.starts_now and not said.victims:
        assert load.where.get(task_id) == said.worker, about
        return
    if said.starts_now:
        load.stand_still(1.1)  # queues are checked again within a second
        assert {one for one, winner in load.victims.items() if winner == task_id} == {
            victim.task for victim in said.victims
        }, about
        room = load.task(task_id).reserved
        assert said.worker == (load.where[task_id] if room is None else room.worker), about
        load.advance_until([task_id], said.expected.latest.timestamp() - load.now.timestamp())  # type: ignore[union-attr]
        assert task_id in load.first_starts, about
        return
    assert load.task(task_id).worker_id is None, about
    found = diagnose(load.shard.memory, task_id, load.now)
    assert found is not None, about
    assert found.reason is said.reason, about


def _is_in(said: Expected, at: datetime) -> bool:
    assert said.earliest is not None
    assert said.latest is not None
    return said.earliest <= at <= said.latest


def test_a_smaller_request_would_start_now(world: World) -> None:
    """Two of four cores are in use, and three are requested."""
    world.register("w1", cores=4)
    sharing_rules.running(world, "acme", 2, Priority.P1)
    world.submit(jobs.job(jobs.task("large", resources=jobs.cores(3))))
    snapshot = take_snapshot(world.shard.memory, world.task("large").id, world.now)
    assert not what_if(snapshot, parse_hypothesis(["priority P1"])).starts_now
    said = what_if(snapshot, parse_hypothesis(["cpu 2", "memory 2Gi"]))
    assert (said.starts_now, said.worker, said.victims, said.holds) == (True, "w1", (), "")


def test_a_p0_would_preempt(world: World) -> None:
    """The victim is named with its worker."""
    world.register("w1", cores=2)
    run = sharing_rules.running(world, "beta", 2, Priority.P2)
    world.submit(jobs.job(jobs.task("urgent")), priority=Priority.P2)
    said = what_if(
        take_snapshot(world.shard.memory, world.task("urgent").id, world.now), parse_hypothesis(["priority P0"])
    )
    assert said.starts_now
    (victim,) = said.victims
    assert victim.task in {task.id for task in world.ledger.tasks_of(run.id)}
    assert (victim.tenant, victim.priority, victim.worker) == ("beta", Priority.P2, "w1")


def test_changes_without_effect_or_permission_have_remarks(world: World) -> None:
    """A group that does not exist changes nothing; P0 needs a grant in any case."""
    world.register("w1", cores=2)
    sharing_rules.running(world, "beta", 2, Priority.P2)
    world.submit(jobs.job(jobs.task("late")), priority=Priority.P2)
    snapshot = take_snapshot(world.shard.memory, world.task("late").id, world.now)

    said = what_if(snapshot, parse_hypothesis(["group nobodys 3", "priority P0"]))
    group, grant = said.notes
    assert "nobodys" in group
    assert "P0" in grant
    assert what_if(snapshot, parse_hypothesis(["priority P1"])).notes == ()


def test_a_paused_run_would_continue(world: World) -> None:
    """Other causes would still be reported."""
    world.register("w1")
    run = world.submit(jobs.chain("a", "b"))
    world.action(happened.PauseRun, run)
    world.run_through("a")
    snapshot = take_snapshot(world.shard.memory, world.task("b").id, world.now)
    assert what_if(snapshot, parse_hypothesis(["unpause"])).starts_now
    assert not what_if(snapshot, parse_hypothesis(["unfreeze"])).starts_now


def test_a_freeze_that_ends_lets_it_start(world: World) -> None:
    """One more worker does not."""
    world.register("w1")
    world.rule(sharing_rules.rules(sharing_rules.freeze(FreezeKind.TENANT, "acme")))
    world.submit(jobs.job(jobs.task("load")))
    snapshot = take_snapshot(world.shard.memory, world.task("load").id, world.now)
    assert what_if(snapshot, parse_hypothesis(["unfreeze"])).starts_now
    said = what_if(snapshot, parse_hypothesis(["worker 8"]))
    assert not said.starts_now
    assert "frozen" in said.holds


def test_a_label_less_is_enough(world: World) -> None:
    """Or a worker that has it."""
    world.register("w1")
    world.submit(jobs.job(jobs.task("train", labels={"gpu": "a100"})))
    snapshot = take_snapshot(world.shard.memory, world.task("train").id, world.now)
    assert what_if(snapshot, parse_hypothesis(["without label gpu=a100"])).worker == "w1"
    assert what_if(snapshot, parse_hypothesis(["worker 2"])).starts_now
    said = what_if(snapshot, parse_hypothesis(["worker 2 label.gpu=t4"]))
    assert not said.starts_now


@pytest.mark.parametrize("words", ["priority P0", "cpu 0.5", "burst 8"])
def test_after_a_failover_what_if_agrees_with_the_diagnosis(world: World, words: str) -> None:
    """The matching worker may not have reconnected yet."""
    world.register("w1", labels={"gpu": "a100"})
    world.register("w2")
    world.new_leader()
    world.reconnect("w2")
    world.submit(jobs.job(jobs.task("train", labels={"gpu": "a100"})))
    found = diagnose(world.shard.memory, world.task("train").id, world.now)
    assert found is not None
    assert found.expected is not None
    assert found.expected.kind is ExpectedKind.UNKNOWN

    snapshot = take_snapshot(world.shard.memory, world.task("train").id, world.now)
    assert what_if(snapshot, parse_hypothesis([words])).expected.kind is ExpectedKind.UNKNOWN

    world.advance(20, heard=["w2"])
    snapshot = take_snapshot(world.shard.memory, world.task("train").id, world.now)
    assert what_if(snapshot, parse_hypothesis([words])).expected.kind is ExpectedKind.NEVER


@pytest.mark.parametrize(("words", "starts"), [("group db 1", False), ("group db 2", True), ("group db 5", True)])
def test_a_higher_rate_lets_it_start_now(world: World, words: str, starts: bool) -> None:
    """One has started in this minute, and one is allowed."""
    name = situations.rate_is_used(world)
    said = what_if(take_snapshot(world.shard.memory, world.task(name).id, world.now), parse_hypothesis([words]))
    assert said.starts_now is starts


def test_a_resubmitted_task_was_not_preempted(world: World) -> None:
    """It was preempted for a P0; with another request it is another task, and waits for capacity as any other."""
    name = situations.made_room(world)
    snapshot = take_snapshot(world.shard.memory, world.task(name).id, world.now)
    assert what_if(snapshot, parse_hypothesis(["priority P1"])).reason is Reason.PREEMPTED
    assert what_if(snapshot, parse_hypothesis(["cpu 1"])).reason is Reason.NO_WORKER_CAPACITY


def test_with_more_capacity_it_would_start_sooner(world: World) -> None:
    """Not now, as others go first."""
    for took in (50.0, 60.0):
        world.shard.memory.durations.record("acme", "job", "t", took, life=0.0)
    world.register("w1")
    runs = [world.submit(jobs.job(jobs.task("t"))) for _ in range(4)]
    world.start("t", of=runs[0])
    task = world.ledger.tasks_of(runs[3].id)[0]
    snapshot = take_snapshot(world.shard.memory, task.id, world.now)
    said = what_if(snapshot, parse_hypothesis(["worker 1"]))
    assert not said.starts_now
    assert said.expected.latest is not None
    assert said.expected.latest < world.now + timedelta(seconds=120)
