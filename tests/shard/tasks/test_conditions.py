"""Conditions of tasks: evaluated once, when everything upstream has ended and allows the start (DAG-4)."""

from __future__ import annotations

import msgspec
import pytest

from mainspring.core.model.job import OnSkip
from mainspring.core.model.run import FailurePolicy, RunState
from mainspring.core.model.task import TaskState
from mainspring.shard import events as happened
from mainspring.shard.effects import ActionStatus
from tests.shard.jobs import job, task
from tests.shard.world import World

S = TaskState
P = FailurePolicy


def test_a_condition_over_several_outputs_and_parameters(world: World) -> None:
    world.register("w1", cores=4)
    spec = job(
        task("new"), task("old"), task("load", "new", "old", only_if="outputs.new.n - outputs.old.n > params.least")
    )
    good, bad = world.submit(spec, params='{"least": 3}'), world.submit(spec, params='{"least": 9}')
    for run in (good, bad):
        world.succeed("new", output='{"n": 10}', of=run)
        assert world.task("load", run).state is S.PENDING
        world.succeed("old", output='{"n": 5}', of=run)
    assert world.task("load", good).state is S.ASSIGNED
    assert world.path("load", bad) == [S.PENDING, S.SKIPPED]
    assert world.task("load", bad).because == "condition is false: outputs.new.n - outputs.old.n > params.least"
    assert world.run(bad).state is RunState.SUCCEEDED


def test_a_task_without_upstream_can_have_a_condition_on_parameters(world: World) -> None:
    """It never waits, and its skip passes on as any other does."""
    world.register("w1", cores=4)
    run = world.submit(
        job(
            task("clean", only_if="params.full"),
            task("load", "clean"),
            task("report", "load", on_skip=OnSkip.RUN),
        ),
        params='{"full": false}',
    )
    assert world.states(run) == {"clean": S.SKIPPED, "load": S.SKIPPED, "report": S.ASSIGNED}
    assert (world.task("clean").cause, world.task("load").cause) == (None, world.task("clean").id)


def test_a_condition_that_can_not_be_evaluated_fails_its_task(world: World) -> None:
    world.register("w1", cores=4)
    run = world.submit(job(task("count"), task("load", "count", only_if="outputs.count.rows > 0")))
    world.succeed("count", output="7")
    assert world.path("load") == [S.PENDING, S.FAILED]
    assert world.task("load").because.startswith("condition can't be evaluated: ")
    assert "can't be evaluated" in msgspec.json.decode(world.task("load").error or "")["message"]
    assert world.run(run).state is RunState.FAILED


def test_conditions_on_edges_come_first(world: World) -> None:
    """An edge condition that is false prevents an evaluation that would fail."""
    world.register("w1", cores=4)
    world.submit(job(task("a"), task("b", "a", when={"a": "output > 1"}, only_if="outputs.a.nothing > 0")))
    world.succeed("a", output="1")
    assert world.task("b").because == "condition on a is false: output > 1"


def test_failed_and_skipped_tasks_have_no_output(world: World) -> None:
    """Null, under a policy that continues without it."""
    world.register("w1", cores=4)
    world.submit(
        job(
            task("a", max_attempts=1),
            task("b", only_if="false"),
            task("c", "a", "b", on_skip=OnSkip.RUN, only_if="outputs.a is none and outputs.b is none"),
            task("d", "a", "b", on_skip=OnSkip.RUN, only_if="outputs.a.n|default(0) > 0"),
            on_failure=P.SKIP_FAILED,
        )
    )
    world.fail("a")
    assert (world.task("c").state, world.task("d").state) == (S.ASSIGNED, S.SKIPPED)
    assert world.task("d").cause == world.task("a").id


def test_a_condition_is_evaluated_before_the_list(world: World) -> None:
    """A list that can't be had does no harm to a task that is not wanted."""
    world.register("w1", cores=4)
    world.submit(job(task("list"), task("fetch", "list", for_each="outputs.list.files", only_if="outputs.list.go")))
    world.succeed("list", output='{"go": false}')
    assert world.path("fetch") == [S.PENDING, S.SKIPPED]
    assert world.run().task_count == 2


def test_a_fan_out_is_one_list_of_outputs(world: World) -> None:
    """And its condition was asked once, for all of its tasks: one of them is retried without it."""
    world.register("w1", cores=4)
    world.submit(
        job(
            task("fetch", for_each="params.files", only_if="params.files|length == 2", max_attempts=1),
            task("report", "fetch", only_if="outputs.fetch|length == 2 and outputs.fetch[1] is none"),
            on_failure=P.SKIP_FAILED,
        ),
        params='{"files": ["a", "b"]}',
    )
    world.succeed("fetch[0]", output="1")
    world.fail("fetch[1]")
    assert world.task("report").state is S.ASSIGNED
    world.succeed("report")
    assert world.reply(happened.ReopenTask, task="fetch[1]") is ActionStatus.DONE
    assert world.task("fetch[1]").state is S.ASSIGNED


def test_the_cause_of_a_skip_is_the_task_of_a_fan_out_that_failed(world: World) -> None:
    world.register("w1", cores=4)
    world.submit(
        job(
            task("fetch", for_each="params.files", max_attempts=1),
            task("report", "fetch", only_if="outputs.fetch[1] is not none"),
            on_failure=P.SKIP_FAILED,
        ),
        params='{"files": ["a", "b"]}',
    )
    world.succeed("fetch[0]", output="1")
    world.fail("fetch[1]")
    assert (world.task("report").state, world.task("report").cause) == (S.SKIPPED, world.task("fetch[1]").id)
    assert world.reply(happened.RetryRun) is ActionStatus.DONE
    world.succeed("fetch[1]", output="2")
    assert world.task("report").state is S.ASSIGNED


def test_a_retry_of_an_upstream_evaluates_the_condition_again(world: World) -> None:
    world.register("w1", cores=4)
    run = world.submit(job(task("count"), task("load", "count", only_if="outputs.count > 0"), task("end", "load")))
    world.succeed("count", output="0")
    assert world.run(run).state is RunState.SUCCEEDED
    assert world.reply(happened.ReopenTask, task="count") is ActionStatus.DONE
    world.succeed("count", output="1")
    assert world.states(run) == {"count": S.SUCCEEDED, "load": S.ASSIGNED, "end": S.PENDING}
    assert world.task("load").generation == 2


def test_a_returned_task_with_a_changed_upstream_is_evaluated_again(world: World) -> None:
    world.register("w1", cores=4)
    world.submit(job(task("count"), task("load", "count", only_if="outputs.count > 0"), on_failure=P.FAIL_AFTER_ALL))
    world.succeed("count", output="1")
    world.action(happened.ReopenTask, task="count")
    world.succeed("count", output="0")
    assert world.task("load").state is S.ASSIGNED
    world.give_back("load")
    assert world.task("load").state is S.SKIPPED


@pytest.mark.parametrize("output", ["0", "1"])
def test_a_new_leader_decides_nothing_again(world: World, output: str) -> None:
    world.register("w1", cores=1)
    world.submit(job(task("count"), task("busy"), task("load", "count", only_if="outputs.count > 0")))
    world.succeed("count", output=output)
    before = world.path("load")
    assert before[-1] is (S.QUEUED if output == "1" else S.SKIPPED)
    world.new_leader()
    assert world.path("load") == before


def test_a_condition_in_a_paused_run_is_evaluated_after_the_resume(world: World) -> None:
    world.register("w1", cores=4)
    world.submit(job(task("count"), task("load", "count", only_if="outputs.count > 0")))
    world.start("count")
    world.action(happened.PauseRun)
    world.succeed("count", output="0")
    assert world.task("load").state is S.PENDING
    world.action(happened.ResumeRun)
    assert world.task("load").state is S.SKIPPED


def test_a_task_that_an_output_adds_has_a_condition_too(world: World) -> None:
    """On its dependencies, explicit or implied by being added; on no other."""
    world.register("w1", cores=4)
    world.submit(job(task("plan", grows=True, max_attempts=2), task("other"), on_failure=P.FAIL_AFTER_ALL))
    bad = {"tasks": [{"name": "a", "when": "outputs.other > 0"}]}
    world.succeed("plan", output=msgspec.json.encode(bad).decode())
    assert "uses the output of 'other', which the task does not need" in world.task("plan").because
    good = {
        "tasks": [
            {"name": "a", "when": "outputs.plan.tasks|length == 3"},
            {"name": "b", "when": "outputs.a > 1"},
            {"name": "c", "needs": ["a"], "when": "outputs.a > 1"},
        ],
        "edges": [{"task": "b", "needs": ["a"]}],
    }
    assert world.reply(happened.ReopenTask, task="plan") is ActionStatus.DONE
    world.succeed("plan", output=msgspec.json.encode(good).decode())
    assert (world.task("a").state, world.task("b").state) == (S.ASSIGNED, S.PENDING)
    world.new_leader()
    world.reconnect("w1")
    world.succeed("a", output="1")
    assert (world.task("b").state, world.task("c").state) == (S.SKIPPED, S.SKIPPED)


def test_large_outputs_that_are_not_named_do_not_matter(world: World) -> None:
    world.register("w1", cores=4)
    world.submit(job(task("big"), task("n"), task("load", "big", "n", only_if="outputs.n > 0")))
    world.succeed("big", output=f'"{"x" * 300_000}"')
    world.succeed("n", output="1")
    assert world.task("load").state is S.ASSIGNED
