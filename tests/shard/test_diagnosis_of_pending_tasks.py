"""Diagnoses of pending tasks: what they wait for, and when they can start, if that is known."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mainspring.core.explain import messages
from mainspring.core.explain import messages as words
from mainspring.core.explain.diagnosis import MAX_NAMED, ExpectedKind, Reason
from mainspring.core.model.job import OnSkip
from mainspring.core.model.run import FailurePolicy
from mainspring.core.model.task import TaskState
from mainspring.protocol.wire import Outcome
from mainspring.shard import events as happened
from mainspring.shard.explain.diagnose import diagnose, find, representative_task
from tests.shard.diagnoses import blockers, holding, settled, why
from tests.shard.jobs import chain, fan, job, short, task, wide
from tests.shard.mass_failures import DATABASE_DOWN, Storm
from tests.shard.world import World

S = TaskState


def test_upstream_tasks_are_named_with_their_activity(world: World) -> None:
    settled(world, w1=8)
    run = world.submit(job(task("a"), task("b"), task("c"), task("last", "a", "b", "c")))
    world.start("a", "b")
    world.succeed("b", of=run)

    found = why(world, "last")
    assert (found.reason, holding(found)) == (Reason.WAITING_UPSTREAM, words.UPSTREAM)
    assert found.numbers == {"waiting": 2, "upstream": 3}
    assert blockers(found) == [world.task("a").id, world.task("c").id]
    assert next(gate.says for gate in found.gates if gate.name == words.UPSTREAM) == "1/3"

    world.succeed("a", of=run)
    world.run_through("c", of=run)
    assert world.task("last").state is S.ASSIGNED


def test_the_end_of_upstream_tasks_is_estimated_from_their_durations(world: World) -> None:
    """Along the longest path: a task of 100 s that has run for 40 s, then one of 20 s.

    From definitions only, so the range is wide: from half to twice the duration.
    """
    settled(world, w1=8)
    world.submit(
        job(
            task("slow", expected_seconds=100.0, timeout_seconds=900.0),
            task("quick", expected_seconds=60.0, timeout_seconds=900.0),
            task("between", "slow", expected_seconds=20.0), task("last", "between", "quick"),
        )
    )  # fmt: skip
    world.start("slow", "quick")
    world.advance(40, heard=["w1"])

    found = why(world, "last")
    assert found.expected is not None
    assert found.expected.kind is ExpectedKind.RANGE
    assert found.expected.earliest == world.now + timedelta(seconds=10 + 10)
    assert found.expected.latest == world.now + timedelta(seconds=160 + 40)

    world.advance(170, heard=["w1"])
    late = why(world, "last").expected
    assert late is not None
    assert (late.kind, "slow" in late.basis) == (ExpectedKind.UNKNOWN, True)


def test_an_unknown_duration_has_no_estimate(world: World) -> None:
    settled(world, w1=1)
    world.submit(chain("a", "b"))

    expected = why(world, "b").expected
    assert expected is not None
    assert (expected.kind, " a " in expected.basis) == (ExpectedKind.UNKNOWN, True)


def test_a_wide_fan_in_names_a_few(world: World) -> None:
    settled(world, w1=40)
    world.submit(fan(30))
    world.run_through("first")

    found = why(world, "last")
    assert (len(found.blockers), found.more_blockers) == (MAX_NAMED, 30 - MAX_NAMED)
    assert found.verdict.endswith("and 20 more")


def test_a_task_whose_readiness_is_not_decided_yet_has_no_blocker(world: World) -> None:
    """The end of `first` propagates to a few tasks per turn."""
    settled(world, w1=1)
    world.submit(fan(30))
    world.start("first")
    with world.rows_per_turn(3):
        world.turn(world.result("first", Outcome.SUCCEEDED))

    found = why(world, "t29")
    assert (found.state, found.reason, holding(found), blockers(found)) == ("PENDING", None, "", [])
    assert found.verdict == messages.about_to_be_ready()

    world.settle()
    assert why(world, "t29").reason is Reason.NO_WORKER_CAPACITY


def test_a_failed_upstream_means_never_before_the_others_have_ended(world: World) -> None:
    settled(world, w1=8)
    run = world.submit(
        job(task("a", max_attempts=1), task("b"), task("last", "a", "b"), on_failure=FailurePolicy.FAIL_AFTER_ALL)
    )
    world.start("a", "b")
    world.fail("a", of=run)

    found = why(world, "last")
    assert (found.state, found.reason) == ("PENDING", Reason.DEPENDENCY_NOT_READY)
    assert found.verdict.startswith("Will never start: a failed at ")
    assert blockers(found) == [world.task("a").id]
    assert found.expected is not None
    assert found.expected.kind is ExpectedKind.NEVER

    world.action(happened.ReopenTask, run, task="a")
    assert why(world, "last").reason is Reason.WAITING_UPSTREAM


def test_a_failed_upstream_does_not_block_a_task_that_tolerates_it(world: World) -> None:
    settled(world, w1=8)
    run = world.submit(
        job(task("a", max_attempts=1), task("b"), task("last", "a", "b"), on_failure=FailurePolicy.SKIP_FAILED)
    )
    world.start("a", "b")
    world.fail("a", of=run)

    assert why(world, "last").reason is Reason.WAITING_UPSTREAM


@pytest.mark.parametrize(("on_skip", "reason"), [
    (OnSkip.SKIP, Reason.DEPENDENCY_NOT_READY), (OnSkip.RUN, Reason.WAITING_UPSTREAM),
])  # fmt: skip
def test_a_skipped_upstream_means_never_unless_it_is_tolerated(world: World, on_skip: OnSkip, reason: Reason) -> None:
    settled(world, w1=8)
    world.submit(job(task("a", only_if="false"), task("b"), task("last", "a", "b", on_skip=on_skip)))

    assert world.task("a").state is S.SKIPPED
    assert why(world, "last").reason is reason


def test_a_task_cancelled_for_a_failure_names_it(world: World) -> None:
    """It has ended, and would start again with the failed task."""
    settled(world, w1=8)
    run = world.submit(
        job(task("a", max_attempts=1), task("b"), task("last", "a"), on_failure=FailurePolicy.FAIL_AFTER_ALL)
    )
    world.start("a")
    world.fail("a", of=run)

    found = why(world, "last")
    assert (found.state, found.by, found.reason) == ("CANCELLED", "leader", Reason.DEPENDENCY_NOT_READY)
    assert blockers(found) == [world.task("a").id]


def test_a_retry_names_the_failure_and_the_next_attempt(world: World) -> None:
    settled(world, w1=1)
    world.given_running("t", on="w1", max_attempts=4, retry_delay_seconds=30.0)
    world.fail("t", error='{"type":"HTTPError","message":"HTTP 503"}')

    found = why(world, "t")
    assert (found.reason, holding(found)) == (Reason.WAITING_RETRY, words.DUE)
    assert "HTTPError" in found.verdict
    assert "attempt 2 of 4" in found.verdict
    assert found.expected is not None
    assert found.expected.earliest == world.task("t").due_at

    world.advance(41, heard=["w1"])
    assert world.task("t").state is S.ASSIGNED


def test_retries_with_an_open_circuit_breaker_are_on_hold(world: World) -> None:
    storm = Storm(world, workers=1, cores=200)
    storm.submit(wide(1, max_attempts=3, retry_delay_seconds=1.0), runs=120, tenants=10)
    storm.seconds(4, lambda _: DATABASE_DOWN)

    held = [one for one in world.ledger.tasks.values() if one.state is S.PENDING and one.due_at is not None]
    found = diagnose(world.shard.memory, held[0].id, world.now)
    assert found is not None
    assert found.reason is Reason.CIRCUIT_OPEN
    assert "connection refused" in found.verdict
    assert found.expected is not None
    assert found.expected.earliest == held[0].due_at


def test_the_representative_task_of_a_run(world: World) -> None:
    """Queued before running, running before pending; but of a paused run, a pending one."""
    settled(world, w1=1)
    run = world.submit(job(task("a"), task("b"), task("last", "a", "b")))
    memory = world.shard.memory
    assert representative_task(memory, run.id) == world.task("b").id

    world.run_through("a", of=run)
    world.start("b")
    assert representative_task(memory, run.id) == world.task("b").id
    assert representative_task(memory, "run_that_is_not_there") is None
    world.action(happened.PauseRun, run)
    assert representative_task(memory, run.id) == world.task("last").id
    world.action(happened.ResumeRun, run)

    world.succeed("b", of=run)
    world.run_through("last", of=run)
    assert representative_task(memory, run.id) is None


@pytest.mark.parametrize("wrong", [
    "", "task_", "task_0001", "task_0001.7", "task_0001.-1", "task_0001.00", "task_0001.0.0.0", "task_0001.²",
    "run_0001", "task_0001." + "9" * 5_000, "task_0001.x", "\x00", "task_0002.0",
])  # fmt: skip
def test_an_invalid_id_is_not_found(world: World, wrong: str) -> None:
    world.submit(wide(2))

    assert find(world.shard.memory, wrong) is None
    assert diagnose(world.shard.memory, wrong, world.now) is None


def test_a_member_of_a_fan_out_is_found_by_its_name(world: World) -> None:
    settled(world, w1=1)
    world.submit(job(short("each", for_each='["x", "y", "z"]'), task("last", "each")))

    found = why(world, "last")
    assert found.reason is Reason.WAITING_UPSTREAM
    assert why(world, "each[2]").name == "acme/job/each[z]"
