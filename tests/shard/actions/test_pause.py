"""Pause and resume: nothing starts, running tasks continue, and everything is resumed (DAG-7)."""

from __future__ import annotations

from mainspring.core.model.run import RunState
from mainspring.core.model.task import TaskState
from mainspring.protocol.wire import Outcome
from mainspring.shard import events as happened
from mainspring.shard.effects import ActionStatus
from tests.shard.jobs import chain, job, short, task, wide
from tests.shard.world import World

S = TaskState


def test_a_paused_run_starts_nothing_and_running_tasks_continue(world: World) -> None:
    """STA-5: held by a person is PAUSED."""
    world.register("w1")
    run = world.submit(job(task("a"), task("b"), task("c", "a")))
    world.start("a")

    assert world.reply(happened.PauseRun, run) is ActionStatus.DONE
    assert world.run(run).state is RunState.PAUSED
    assert world.states(run) == {"a": S.RUNNING, "b": S.PENDING, "c": S.PENDING}

    world.succeed("a")
    assert world.states(run) == {"a": S.SUCCEEDED, "b": S.PENDING, "c": S.PENDING}


def test_a_resumed_run_queues_its_ready_tasks(world: World) -> None:
    """Those that were queued, and those whose upstream tasks have ended in the meantime."""
    world.register("w1", cores=4)
    run = world.submit(job(task("a"), task("b"), task("c", "a"), task("d", "c")))
    world.start("a", "b")
    world.action(happened.PauseRun, run)
    world.succeed("a")
    assert world.task("c").state is S.PENDING

    assert world.reply(happened.ResumeRun, run) is ActionStatus.DONE

    assert world.states(run) == {"a": S.SUCCEEDED, "b": S.RUNNING, "c": S.ASSIGNED, "d": S.PENDING}
    assert world.run(run).state is RunState.RUNNING


def test_an_assigned_task_of_a_paused_run_is_recalled_and_waits(world: World) -> None:
    """It has not started: the worker returns it."""
    world.register("w1")
    run = world.submit(chain("a"))
    (_, attempt) = world.holder("a")
    world.action(happened.PauseRun, run)
    assert world.recalls("w1") == [attempt]

    world.give_back("a")
    assert world.task("a").state is S.PENDING

    world.action(happened.ResumeRun, run)
    assert world.task("a").state is S.ASSIGNED
    assert world.task("a").attempt == 2


def test_a_recalled_task_that_had_started_continues_in_a_paused_run(world: World) -> None:
    """The worker reports *started*: running tasks continue."""
    world.register("w1")
    run = world.submit(chain("a"))
    world.action(happened.PauseRun, run)

    world.start("a")
    assert world.stops("w1") == []
    assert world.task("a").stop is None

    world.succeed("a")
    assert world.run(run).state is RunState.SUCCEEDED


def test_a_recall_that_crossed_a_resume_goes_back_to_the_queue(world: World) -> None:
    """The run was paused and resumed before the worker answered."""
    world.register("w1")
    run = world.submit(chain("a"))
    world.action(happened.PauseRun, run)
    world.action(happened.ResumeRun, run)

    world.give_back("a")

    assert world.path("a")[-2:] == [S.QUEUED, S.ASSIGNED]


def test_a_failure_in_a_paused_run_is_retried_after_the_resume(world: World) -> None:
    """The delay passes while the run rests."""
    world.register("w1")
    run = world.submit(chain("a", retry_delay_seconds=5.0))
    world.start("a")
    world.action(happened.PauseRun, run)
    world.fail("a")
    world.advance(seconds=7, heard=["w1"])
    assert world.task("a").state is S.PENDING

    world.action(happened.ResumeRun, run)
    assert world.task("a").state is S.ASSIGNED


def test_a_task_lost_in_a_paused_run_waits_for_the_resume(world: World) -> None:
    """It is reclaimed, and not queued."""
    world.register("w1")
    run = world.submit(chain("a"))
    world.start("a")
    world.action(happened.PauseRun, run)

    world.advance(seconds=15)

    assert world.task("a").state is S.PENDING
    assert world.run(run).state is RunState.PAUSED


def test_repeated_pause_and_resume_are_reported_as_unchanged(world: World) -> None:
    """STA-2."""
    run = world.submit(chain("a"))
    assert world.reply(happened.ResumeRun, run) is ActionStatus.ALREADY
    assert world.reply(happened.PauseRun, run) is ActionStatus.DONE
    assert world.reply(happened.PauseRun, run) is ActionStatus.ALREADY


def test_a_pause_during_adoption_applies_to_tasks_created_later(world: World) -> None:
    """The tasks are created, and none is queued."""
    run = world.put_in_intake(wide(100))
    with world.rows_per_turn(30):
        world.turn(world.arrival(run))
        world.action(happened.PauseRun, run)

    assert set(world.states(run).values()) == {S.PENDING}
    assert len(world.states(run)) == 100

    world.action(happened.ResumeRun, run)
    assert set(world.states(run).values()) == {S.QUEUED}


def test_a_resume_before_the_pause_was_through_queues_everything_once(world: World) -> None:
    """Some tasks were dequeued, others not yet; none is placed twice."""
    run = world.submit(wide(100))
    with world.rows_per_turn(20):
        world.turn(world.asked(happened.PauseRun, run))
        assert {S.PENDING, S.QUEUED} == set(world.states(run).values())
        world.action(happened.ResumeRun, run)
    assert set(world.states(run).values()) == {S.QUEUED}

    world.register("w1", cores=100)
    assert set(world.states(run).values()) == {S.ASSIGNED}


def test_a_resume_before_the_pause_was_through_groups_each_short_task_once(world: World) -> None:
    """PLC-10: a task that is restored to its queue may stand there twice, and must not travel twice."""
    run = world.submit(job(*(short(f"s{n}", expected_seconds=0.001) for n in range(40))))
    with world.rows_per_turn(20):
        world.turn(world.asked(happened.PauseRun, run))
        world.action(happened.ResumeRun, run)
    other = world.submit(job(*(short(f"o{n}", expected_seconds=0.001) for n in range(20))))

    world.register("w1")

    assert set(world.states(run).values()) == set(world.states(other).values()) == {S.ASSIGNED}
    assert len(world.shard.memory.leases) == 1


def test_tasks_dequeued_while_the_run_was_paused_are_requeued(world: World) -> None:
    """Dispatch skips tasks of a paused run, and the resume restores their entries."""
    world.register("w1")
    run = world.submit(wide(40))
    with world.rows_per_turn(4):
        world.turn(world.asked(happened.PauseRun, run))
        (held,) = world.names(S.ASSIGNED)
        world.turn(world.result(held, Outcome.SUCCEEDED))
        world.turn()
        world.action(happened.ResumeRun, run)

    for _ in range(39):
        (held,) = world.names(S.ASSIGNED)
        world.succeed(held)
    assert world.run(run).state is RunState.SUCCEEDED


def test_a_paused_run_can_be_cancelled(world: World) -> None:
    """A pause holds no end back."""
    world.register("w1")
    run = world.submit(chain("a", "b"))
    world.start("a")
    world.action(happened.PauseRun, run)

    world.action(happened.CancelRun, run)
    world.stop("a")

    assert world.run(run).state is RunState.CANCELLED


def test_a_new_leader_keeps_a_run_paused(world: World) -> None:
    """Paused is a column."""
    run = world.submit(chain("a"))
    world.action(happened.PauseRun, run)

    world.new_leader()
    world.register("w1")
    world.settle()
    assert world.task("a").state is S.PENDING

    world.action(happened.ResumeRun, run)
    assert world.task("a").state is S.ASSIGNED
