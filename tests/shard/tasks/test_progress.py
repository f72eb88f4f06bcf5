"""How a run moves on from task to task (DAG-1, DAG-3, DAG-4, DAG-6)."""

from __future__ import annotations

import pytest

from mainspring.core.model.job import OnSkip
from mainspring.core.model.run import FailurePolicy, RunState
from mainspring.core.model.task import TaskState
from mainspring.protocol.wire import Assign, Assignment, Outcome
from tests.shard.jobs import chain, fan, job, task
from tests.shard.world import World

S = TaskState
P = FailurePolicy


def assignment(world: World, name: str) -> Assignment:
    """The latest assignment of a task."""
    worker, attempt = world.holder(name)
    told = world.said_to(worker, Assign)
    return next(
        one for message in told if isinstance(message, Assign) for one in message.group if one.attempt == attempt
    )


def test_a_chain_runs_one_task_after_another(world: World) -> None:
    """DAG-1."""
    world.register("w1", cores=3)
    run = world.submit(chain("a", "b", "c"))
    assert world.states(run) == {"a": S.ASSIGNED, "b": S.PENDING, "c": S.PENDING}

    world.run_through("a")
    assert world.states(run) == {"a": S.SUCCEEDED, "b": S.ASSIGNED, "c": S.PENDING}

    world.run_through("b", "c")
    assert world.run(run).state is RunState.SUCCEEDED
    assert world.run(run).ended_at == world.now


def test_a_fan_in_waits_for_all(world: World) -> None:
    """DAG-1: the last of three lets it go."""
    world.register("w1", cores=8)
    world.submit(fan(3))
    world.run_through("first", "t0", "t2")
    assert world.task("last").state is S.PENDING

    world.run_through("t1")
    assert world.task("last").state is S.ASSIGNED


def test_a_ready_task_is_queued_and_placed_in_the_batch_of_the_completion(world: World) -> None:
    """DAG-1: a step of a chain costs one commit."""
    world.register("w1")
    world.submit(chain("a", "b"))
    world.start("a")
    before = len(world.batches)

    world.succeed("a")

    assert len(world.batches) == before + 1
    assert world.path("b") == [S.PENDING, S.QUEUED, S.ASSIGNED]


def test_a_completion_touches_its_children_only(world: World) -> None:
    """DAG-1: 200 tasks, two rows."""
    run = world.put_in_intake(job(task("a"), task("b", "a"), *(task(f"x{n}") for n in range(200))))
    world.settle(world.arrival(run))
    world.register("w1")
    world.start("a")

    world.succeed("a")

    changed = {change.task.name for change in world.batches[-1].tasks}
    assert changed <= {"a", "b", "x0"}


def test_under_fail_fast_unstarted_tasks_are_cancelled_and_running_tasks_continue(world: World) -> None:
    """DAG-3: the default."""
    world.register("w1", cores=2)
    run = world.submit(job(task("a", max_attempts=1), task("b"), task("c"), task("d", "b"), task("e", "a")))
    world.start("a", "b")

    world.fail("a")
    assert world.states(run) == {"a": S.FAILED, "b": S.RUNNING, "c": S.CANCELLED, "d": S.CANCELLED, "e": S.CANCELLED}
    assert world.stops("w1") == []

    world.succeed("b")
    assert world.run(run).state is RunState.FAILED


def test_under_fail_fast_an_assigned_task_is_recalled_and_then_cancelled(world: World) -> None:
    """DAG-3, STA-8: it keeps its capacity until the worker has returned it."""
    world.register("w1", cores=2)
    world.submit(job(task("a", max_attempts=1), task("b")))
    world.start("a")
    (_, waiting) = world.holder("b")

    world.fail("a")
    assert world.task("b").state is S.ASSIGNED
    assert world.recalls("w1") == [waiting]

    world.give_back("b")
    assert world.task("b").state is S.CANCELLED
    assert world.task("b").cause == world.task("a").id


def test_under_fail_fast_a_recalled_task_that_had_started_runs_to_its_end(world: World) -> None:
    """DAG-3: start and recall cross. The worker reports *started*, and is asked to stop."""
    world.register("w1", cores=2)
    run = world.submit(job(task("a", max_attempts=1), task("b")))
    world.start("a")
    world.fail("a")

    world.start("b")
    world.succeed("b")

    assert world.task("b").state is S.SUCCEEDED
    assert world.run(run).state is RunState.FAILED


def test_under_fail_after_all_only_descendants_are_cancelled(world: World) -> None:
    """DAG-3."""
    world.register("w1", cores=3)
    run = world.submit(
        job(
            task("a", max_attempts=1),
            task("b", "a"),
            task("c", "b"),
            task("x"),
            task("y", "x"),
            on_failure=P.FAIL_AFTER_ALL,
        )
    )
    world.start("a", "x")
    world.fail("a")
    assert world.states(run) == {"a": S.FAILED, "b": S.CANCELLED, "c": S.CANCELLED, "x": S.RUNNING, "y": S.PENDING}
    assert {world.task(name).cause for name in "bc"} == {world.task("a").id}

    world.succeed("x")
    world.run_through("y")
    assert world.run(run).state is RunState.FAILED


def test_under_skip_failed_downstream_proceeds_with_the_failed_upstreams(world: World) -> None:
    """DAG-3: and the run ends PARTIAL."""
    world.register("w1", cores=3)
    run = world.submit(job(task("a", max_attempts=1), task("b"), task("c", "a", "b"), on_failure=P.SKIP_FAILED))
    world.start("a", "b")
    world.fail("a")
    world.succeed("b", output="2")

    told = assignment(world, "c")
    assert told.failed_upstreams == ("a",)
    assert told.inputs == {"b": "2"}

    world.run_through("c")
    assert world.run(run).state is RunState.PARTIAL


@pytest.mark.parametrize(
    ("policy", "state"),
    [(P.FAIL_FAST, RunState.FAILED), (P.FAIL_AFTER_ALL, RunState.FAILED), (P.SKIP_FAILED, RunState.PARTIAL)],
)
def test_a_failure_decides_the_state_of_the_run(world: World, policy: FailurePolicy, state: RunState) -> None:
    """STA-5."""
    world.register("w1", cores=2)
    run = world.submit(job(task("a", max_attempts=1), task("b"), on_failure=policy))
    world.start("a", "b")
    world.fail("a")
    world.succeed("b")

    assert world.run(run).state is state


def test_a_condition_that_is_false_skips_the_task_and_the_skip_passes_on(world: World) -> None:
    """DAG-4."""
    world.register("w1", cores=4)
    run = world.submit(
        job(
            task("count"),
            task("load", "count", when={"count": "output > 0"}),
            task("report", "load"),
            task("log", "count"),
        )
    )
    world.start("count")
    world.succeed("count", output="0")

    assert world.states(run) == {"count": S.SUCCEEDED, "load": S.SKIPPED, "report": S.SKIPPED, "log": S.ASSIGNED}
    assert world.task("report").cause == world.task("count").id
    world.run_through("log")
    assert world.run(run).state is RunState.SUCCEEDED


def test_a_condition_that_is_true_lets_the_task_run(world: World) -> None:
    """DAG-4: it sees the output and the run's parameters."""
    world.register("w1", cores=4)
    world.submit(
        job(task("count"), task("load", "count", when={"count": "output > params.least"})), params='{"least": 3}'
    )
    world.start("count")
    world.succeed("count", output="4")

    assert world.task("load").state is S.ASSIGNED


def test_a_task_can_opt_to_run_after_a_skipped_upstream(world: World) -> None:
    """DAG-4: skips propagate unless the child opts out."""
    world.register("w1", cores=4)
    world.submit(
        job(
            task("count"),
            task("load", "count", when={"count": "output > 0"}),
            task("report", "load", on_skip=OnSkip.RUN),
        )
    )
    world.start("count")
    world.succeed("count", output="0")

    assert world.task("load").state is S.SKIPPED
    assert world.task("report").state is S.ASSIGNED


def test_a_condition_that_can_not_be_evaluated_fails_its_task_and_nothing_else(world: World) -> None:
    """DAG-4, SEC-5: PENDING to FAILED is an edge of the table."""
    world.register("w1", cores=4)
    run = world.submit(
        job(
            task("count"),
            task("load", "count", when={"count": "output.rows.first > 0"}),
            task("log", "count"),
            on_failure=P.FAIL_AFTER_ALL,
        )
    )
    world.start("count")
    world.succeed("count", output="0")

    assert world.path("load") == [S.PENDING, S.FAILED]
    assert "can't be evaluated" in world.task("load").because
    world.run_through("log")
    assert world.run(run).state is RunState.FAILED


def test_a_failed_condition_under_fail_fast_cancels_the_rest(world: World) -> None:
    """DAG-3, DAG-4: it is a failure like any other."""
    world.register("w1")
    run = world.submit(
        job(task("count"), task("load", "count", when={"count": "output.rows.first > 0"}), task("z", "load"), task("y"))
    )
    world.start("count")
    world.succeed("count", output="0")

    assert world.task("load").state is S.FAILED
    assert world.task("z").state is S.CANCELLED
    assert world.task("y").state is S.CANCELLED
    assert world.run(run).state is RunState.FAILED


def test_outputs_of_upstreams_are_inputs_by_name(world: World) -> None:
    """DAG-6: and nothing of tasks that are not upstream."""
    world.register("w1", cores=4)
    world.submit(job(task("a"), task("b"), task("x"), task("c", "a", "b")), params='{"day": 1}')
    world.start("a", "b", "x")
    world.succeed("a", output='{"rows": 1}')
    world.succeed("b", output='"two"')
    world.succeed("x", output="3")

    told = assignment(world, "c")
    assert told.inputs == {"a": '{"rows": 1}', "b": '"two"'}
    assert told.params == '{"day": 1}'
    assert told.number == 1


def test_an_upstream_without_an_output_is_no_input(world: World) -> None:
    """DAG-6: nothing is not null."""
    world.register("w1")
    world.submit(chain("a", "b"))
    world.run_through("a")

    assert assignment(world, "b").inputs == {}


def test_a_propagation_to_many_children_takes_several_batches_and_notifies_each_once(world: World) -> None:
    """A fan-out of 300 with 50 rows to a batch."""
    world.register("w1")
    world.submit(fan(300))
    world.start("first")

    with world.rows_per_turn(50):
        before = len(world.batches)
        world.succeed("first")
        batches = world.batches[before:]

    assert len(batches) > 4
    assert max(len(batch.tasks) for batch in batches) <= 52
    ready = [name for name, state in world.states().items() if state in (S.QUEUED, S.ASSIGNED)]
    assert len(ready) == 300


def test_a_new_leader_continues_a_propagation(world: World) -> None:
    """A propagation has no row: the new leader counts from the states."""
    world.register("w1")
    world.submit(fan(300))
    world.start("first")
    with world.rows_per_turn(50):
        world.turn(world.result("first", Outcome.SUCCEEDED))
        assert world.states()["t299"] is S.PENDING
        world.new_leader()
        world.settle()

    assert all(world.states()[f"t{n}"] is S.QUEUED for n in range(300) if not world.task(f"t{n}").worker_id)
    assert world.task("last").state is S.PENDING


def test_a_watched_run_reports_its_end_once(world: World) -> None:
    """The outbox row has an id made of run, generation and kind."""
    world.register("w1")
    run = world.submit(chain("a"), watched=True)
    world.run_through("a")

    (news,) = world.ledger.outbox
    assert (news.id, news.kind, news.key) == (f"{run.id}:1:ended", "run.ended", run.id)
    assert '"state":"SUCCEEDED"' in news.payload


def test_an_unwatched_run_sends_no_message(world: World) -> None:
    """Most runs do."""
    world.register("w1")
    world.submit(chain("a"))
    world.run_through("a")

    assert world.ledger.outbox == []
