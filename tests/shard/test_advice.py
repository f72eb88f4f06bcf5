"""Suggestions: only changes of the verdict, with command and effect."""

from __future__ import annotations

from mainspring.core.explain import advice_messages as words
from mainspring.core.explain.diagnosis import Diagnosis, ExpectedKind, Reason, SuggestionKind
from mainspring.core.fairness.freezes import FreezeKind
from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Priority
from mainspring.shard import events as happened
from mainspring.shard.explain.advice import advise
from mainspring.shard.explain.diagnose import diagnose
from mainspring.shard.explain.forecast import take_snapshot
from tests.shard import jobs, sharing_rules
from tests.shard.groups import grant, in_group
from tests.shard.world import World


def advice(world: World, name: str) -> Diagnosis:
    """The whole answer about a task."""
    memory, task = world.shard.memory, world.task(name)
    found = diagnose(memory, task.id, world.now)
    assert found is not None
    return advise(found, take_snapshot(memory, task.id, world.now))


def effects(said: Diagnosis) -> dict[str, str]:
    """The effect of each suggestion, by its command, or its text if it has none."""
    return {action.command or action.says: action.effect for action in said.suggestions}


def test_a_smaller_request_or_a_higher_priority(world: World) -> None:
    """Three of four cores are in use by P2, and two are requested."""
    world.register("w1", cores=4)
    sharing_rules.running(world, "beta", 3, Priority.P2)
    run = world.submit(jobs.job(jobs.task("load", resources=jobs.cores(2))))
    said = effects(advice(world, "load"))
    less = words.ask_for_less(Resources(2_000, 2 * jobs.GIB), Resources(1_000, jobs.GIB))
    assert said[less] == words.starts_on("w1", 0, 0)
    assert said[f"mainspring promote {run.id} --priority P0"] == words.starts_on("w1", 1, 30)
    assert said["mainspring worker --pool pool --cpu 2 --memory 2Gi"] == words.starts_on("the new worker", 0, 0)


def test_a_promotion_is_not_suggested_at_a_quota(world: World) -> None:
    """A P1 waits for its tenant's quota as a P2 does: a higher quota helps, and a P0 ignores quotas."""
    world.register("w1", cores=8)
    world.rule(sharing_rules.rules(sharing_rules.quota("acme", guaranteed=1, burst=1)))
    sharing_rules.running(world, "acme", 2, Priority.P2)
    world.submit(jobs.job(jobs.task("load")), priority=Priority.P2)
    said = advice(world, "load")
    assert said.reason is Reason.TENANT_OVER_QUOTA
    assert effects(said)["mainspring quota raise acme --for 4h --burst-cpu 2"] == words.starts_on("w1", 0, 0)
    assert not any("promote" in action.command for action in said.suggestions)


def test_tasks_at_a_time_are_raised_too(world: World) -> None:
    """By one."""
    world.register("w1", cores=8)
    world.rule(sharing_rules.rules(sharing_rules.quota("acme", max_tasks=1)))
    sharing_rules.running(world, "acme", 1, Priority.P1)
    world.submit(jobs.job(jobs.task("load")))
    assert "mainspring quota raise acme --for 4h --max-tasks 2" in effects(advice(world, "load"))


def test_a_label_that_no_worker_has(world: World) -> None:
    """It will never start; without the label it would, and with a worker that has it."""
    world.register("w1")
    world.advance(20, heard=["w1"])
    world.submit(jobs.job(jobs.task("train", labels={"gpu": "a100"})))
    said = advice(world, "train")
    assert said.expected is not None
    assert said.expected.kind is ExpectedKind.NEVER
    assert effects(said)[words.without_label("gpu", "a100")] == words.starts_on("w1", 0, 0)
    assert "mainspring worker --pool pool --cpu 1 --memory 1Gi --label gpu=a100" in effects(said)
    assert not any(action.kind is SuggestionKind.WAIT for action in said.suggestions)


def test_a_freeze_is_ended_by_its_own_name(world: World) -> None:
    """And by no other."""
    world.register("w1")
    world.rule(sharing_rules.rules(sharing_rules.freeze(FreezeKind.TENANT, "acme")))
    world.submit(jobs.job(jobs.task("load")))
    assert effects(advice(world, "load")) == {"mainspring unfreeze tenant acme": words.starts_on("w1", 0, 0)}


def test_a_second_freeze_is_not_ended_with_the_first(world: World) -> None:
    """Unfreezing one of them changes nothing, and is not suggested."""
    world.register("w1")
    freezes = sharing_rules.freeze(FreezeKind.TENANT, "acme"), sharing_rules.freeze(FreezeKind.ALL)
    world.rule(sharing_rules.rules(*freezes))
    world.submit(jobs.job(jobs.task("load")))
    assert advice(world, "load").suggestions == ()


def test_a_paused_run_is_resumed(world: World) -> None:
    """`b` is ready, and only the pause holds it."""
    world.register("w1")
    run = world.submit(jobs.chain("a", "b"))
    world.action(happened.PauseRun, run)
    world.run_through("a")
    assert effects(advice(world, "b")) == {f"mainspring resume {run.id}": words.starts_on("w1", 0, 0)}


def test_a_higher_group_limit_is_suggested(world: World) -> None:
    """One at a time, and one runs."""
    world.register("w1", cores=4)
    world.rule(sharing_rules.rules(sharing_rules.group("db", 1)))
    world.submit(jobs.job(in_group("a")))
    grant(world)
    world.start("a")
    world.submit(jobs.job(in_group("b")))
    said = effects(advice(world, "b"))
    assert said["mainspring groups set db --most 2 --tenant acme"] == words.starts_on("w1", 0, 0)


def test_defragmentation_is_suggested(world: World) -> None:
    """Two workers have a core free each, and two cores are requested."""
    for name in ("w1", "w2"):
        world.register(name, cores=2, labels={"name": name})
        world.submit(jobs.job(jobs.task(f"on-{name}", prefer={"name": name})), tenant="beta", priority=Priority.P2)
        world.start(f"on-{name}")
    world.submit(jobs.job(jobs.task("load", resources=jobs.cores(2))))
    said = advice(world, "load")
    assert said.reason is Reason.FRAGMENTED
    assert "mainspring settings set defragment 1" in effects(said)


def test_a_stale_diagnosis_has_no_suggestions(world: World) -> None:
    """The state may have changed."""
    world.register("w1")
    world.rule(sharing_rules.rules(sharing_rules.freeze(FreezeKind.ALL)))
    world.submit(jobs.job(jobs.task("load")))
    memory, task = world.shard.memory, world.task("load")
    found = diagnose(memory, task.id, world.now, age_seconds=11.0)
    assert found is not None
    assert advise(found, take_snapshot(memory, task.id, world.now)).suggestions == ()
