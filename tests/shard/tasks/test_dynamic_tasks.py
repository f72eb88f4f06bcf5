"""An output adds tasks and edges to its run (DAG-5)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mainspring.core.model.run import FailurePolicy, RunState
from mainspring.core.model.task import TaskState
from mainspring.protocol.wire import Assign, Outcome
from mainspring.shard import events as happened
from mainspring.shard.effects import ActionStatus
from tests.shard.jobs import job, task
from tests.shard.world import World

S = TaskState


def adds(*tasks: dict[str, Any], edges: list[dict[str, Any]] | None = None) -> str:
    """An output that adds these."""
    return msgspec.json.encode({"tasks": tasks, "edges": edges or []}).decode()


def given_grower(world: World, **fields: Any) -> None:
    """A run of `plan`, which may add tasks, and `report`, which waits for it."""
    world.register("w1", cores=8)
    world.submit(job(task("plan", grows=True), task("report", "plan"), **fields))
    world.start("plan")


def test_new_tasks_run_after_what_they_need(world: World) -> None:
    given_grower(world)
    world.succeed("plan", output=adds({"name": "a"}, {"name": "b", "needs": ["a"]}))
    assert world.states() == {"plan": S.SUCCEEDED, "report": S.ASSIGNED, "a": S.ASSIGNED, "b": S.PENDING}
    assert (world.task("b").id, world.run().task_count) == ("task_0001.0.1.1", 4)
    world.succeed("a", output='"from a"')
    sent = [one for message in world.said_to("w1", Assign) for one in message.group]  # type: ignore[union-attr]
    assert sent[-1].inputs == {"a": '"from a"'}
    world.succeed("b", "report")
    assert world.run().state is RunState.SUCCEEDED


def test_a_waiting_task_can_get_more_dependencies(world: World) -> None:
    given_grower(world)
    world.succeed("plan", output=adds({"name": "a"}, edges=[{"task": "report", "needs": ["a"]}]))
    assert world.task("report").state is S.PENDING
    world.new_leader()
    world.reconnect("w1")
    assert world.task("report").state is S.PENDING
    world.succeed("a")
    world.succeed("report")
    assert world.run().state is RunState.SUCCEEDED


def test_what_was_added_can_add_more(world: World) -> None:
    given_grower(world)
    world.succeed("plan", output=adds({"name": "a", "grows": True}, edges=[{"task": "report", "needs": ["a"]}]))
    world.succeed("a", output=adds({"name": "b"}, edges=[{"task": "report", "needs": [{"task": "b"}]}]))
    world.new_leader()
    world.reconnect("w1")
    world.succeed("b")
    world.succeed("report")
    assert world.run().state is RunState.SUCCEEDED


@pytest.mark.parametrize("output", [None, "null", "{}", '{"tasks": []}'])
def test_an_output_may_add_nothing(world: World, output: str | None) -> None:
    given_grower(world)
    world.succeed("plan", output=output)
    assert world.states() == {"plan": S.SUCCEEDED, "report": S.ASSIGNED}


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("[1]", "can't be decoded"),
        ('{"task": []}', "unknown field"),
        (adds({"name": "A b"}), "is not a valid name"),
        (adds({"name": "report"}), "report is already the name of another task of the run"),
        (adds({"name": "a"}, {"name": "a"}), "a is already the name of another task"),
        (adds({"name": "a", "needs": ["nobody"]}), "unknown task 'nobody'"),
        (adds({"name": "a", "work": {"run": []}}), "must begin with a program"),
        (adds({"name": "a", "for_each": "params.x"}), "can't fan out"),
        (adds({"name": "a", "needs": ["b"]}, {"name": "b", "needs": ["a"]}), "would create a cycle: "),
        (
            adds({"name": "a", "needs": ["report"]}, edges=[{"task": "report", "needs": ["a"]}]),
            "would create a cycle: ",
        ),
        (adds(edges=[{"task": "plan", "needs": ["report"]}]), "plan is RUNNING"),
        (adds(edges=[{"task": "nobody", "needs": ["report"]}]), "unknown task 'nobody'"),
        (adds(*({"name": f"t{number}"} for number in range(4))), "at most 3 more"),
    ],
)
def test_an_invalid_expansion_fails_its_task_and_is_dropped(world: World, output: str, why: str) -> None:
    given_grower(world, on_failure=FailurePolicy.FAIL_AFTER_ALL, max_fan_out=3)
    world.succeed("plan", output=output)
    row = world.task("plan")
    assert row.state is S.FAILED
    assert why in row.because
    assert world.states() == {"plan": S.FAILED, "report": S.CANCELLED}
    assert world.run().task_count == 2


def test_a_ready_task_can_not_get_more_dependencies(world: World) -> None:
    world.register("w1", cores=8)
    world.submit(job(task("plan", grows=True), task("other"), on_failure=FailurePolicy.FAIL_AFTER_ALL))
    world.succeed("plan", output=adds({"name": "a"}, edges=[{"task": "other", "needs": ["a"]}]))
    assert world.states() == {"plan": S.FAILED, "other": S.ASSIGNED}


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_new_leader_creates_the_remaining_tasks(world: World, turns: int) -> None:
    given_grower(world)
    names = [f"t{number}" for number in range(20)]
    chain = [
        {"name": name, "needs": [before] if before else []} for name, before in zip(names, ["", *names], strict=False)
    ]
    with world.rows_per_turn(4):
        world.turn(
            world.result("plan", Outcome.SUCCEEDED, output=adds(*chain, edges=[{"task": "report", "needs": ["t19"]}]))
        )
        for _ in range(turns):
            world.turn()
        world.new_leader()
        world.settle()
    world.reconnect("w1")
    assert len(world.states()) == 22
    for name in names:
        assert world.task("report").state is S.PENDING
        world.succeed(name)
    world.succeed("report")
    assert world.run().state is RunState.SUCCEEDED


def test_a_retry_of_the_creator_replaces_its_tasks(world: World) -> None:
    given_grower(world)
    world.succeed("plan", output=adds({"name": "a"}, {"name": "b"}, edges=[{"task": "report", "needs": ["b"]}]))
    world.start("b")
    world.succeed("a")
    old = [world.task("a").id, world.task("b").id]
    assert world.reply(happened.ReopenTask, task="plan") is ActionStatus.DONE
    world.reload()
    world.stop(old[1])
    assert [world.task(one).state for one in old] == [S.SUCCEEDED, S.CANCELLED]
    world.succeed("plan", output=adds({"name": "a"}))
    world.succeed("task_0001.0.2.0", "report")
    assert world.run().state is RunState.SUCCEEDED


def test_a_failure_of_an_added_task_counts(world: World) -> None:
    given_grower(world)
    world.succeed("plan", output=adds({"name": "a", "max_attempts": 1}))
    world.fail("a")
    world.stop("report")
    assert world.run().state is RunState.FAILED
    assert world.reply(happened.RetryRun) is ActionStatus.DONE
    world.succeed("a", "report")
    assert world.run().state is RunState.SUCCEEDED


def test_it_may_add_tasks_again_while_the_old_ones_are_still_being_replaced(world: World) -> None:
    given_grower(world)
    world.register("w2", cores=20)
    world.succeed("plan", output=adds(*({"name": f"old{number}"} for number in range(20))))
    world.run_through(*(f"old{number}" for number in range(7)))
    with world.rows_per_turn(4):
        world.turn(world.asked(happened.ReopenTask, task="plan"))
        world.turn(world.result("plan", Outcome.SUCCEEDED, output=adds({"name": "new"})))
        world.settle()
    world.stop(*[row.id for row in world.ledger.tasks.values() if row.stop is not None])
    world.succeed("new", "report")
    assert world.run().state is RunState.SUCCEEDED
