"""What keeps a queued task from starting though there is room: each is named, and is so no more once it is removed."""

from __future__ import annotations

from datetime import timedelta

from mainspring.core.explain import messages as words
from mainspring.core.explain.diagnosis import Foresight, Passed, Reason
from mainspring.core.fairness.freezes import FreezeKind
from mainspring.core.model.run import FailurePolicy
from mainspring.core.model.task import Priority, TaskState
from mainspring.shard import events as happened
from tests.shard.asking import blockers, holding, settled, why
from tests.shard.groups import allow, counted, grant, in_group
from tests.shard.jobs import cores, job, task, wide
from tests.shard.sharing import freeze, group, policy, pool, quota, rules, submit
from tests.shard.storm import Storm
from tests.shard.world import World

P0, P1, P2 = Priority
S = TaskState


def test_frozen_says_by_whom_and_why(world: World) -> None:
    settled(world, w1=8)
    world.rule(rules(freeze(FreezeKind.TENANT, "acme")))
    world.submit(wide(1))

    found = why(world, "t0")
    assert (found.reason, holding(found), blockers(found)) == (Reason.FROZEN, words.FROZEN, ["ann"])
    assert "tenant acme is frozen by ann: maintenance" in found.verdict
    assert found.expected is not None
    assert found.expected.foresight is Foresight.CANNOT_SAY

    world.rule(rules())
    assert why(world, "t0").reason is None


def test_a_freeze_that_ends_by_itself_says_when(world: World) -> None:
    """Also one of the job: the task is set aside, and in no line."""
    settled(world, w1=8)
    until = world.now + timedelta(minutes=5)
    world.rule(rules(freeze(FreezeKind.JOB, "acme/job", until=until)))
    world.submit(wide(1))

    found = why(world, "t0")
    assert found.reason is Reason.FROZEN
    assert found.expected is not None
    assert (found.expected.earliest, found.expected.latest) == (until, until)

    world.advance(300, heard=["w1"])
    assert world.task("t0").state is S.ASSIGNED


def test_a_paused_run_says_who_paused_it(world: World) -> None:
    """Its queued tasks go back, and wait for a person like the others."""
    settled(world, w1=1)
    run = world.submit(wide(2))
    world.act(happened.PauseRun, run, why="warehouse move")

    found = why(world, "t1")
    assert (found.state, found.reason, blockers(found)) == ("PENDING", Reason.PAUSED, [run.id])
    assert "paused by ann: warehouse move" in found.verdict

    world.act(happened.ResumeRun, run)
    assert why(world, "t1").reason is Reason.NO_WORKER_CAPACITY


def test_a_run_that_is_held_for_a_fault_says_which(world: World) -> None:
    settled(world, w1=1)
    run = world.submit(wide(2))
    world.act(happened.PauseRun, run)
    world.shard.memory.runs[run.id].run.held = "its definition can't be read"

    found = why(world, "t1")
    assert found.reason is Reason.PAUSED
    assert "its definition can't be read" in found.verdict
    world.act(happened.ResumeRun, run)


def test_a_policy_that_keeps_it_out_of_the_pool_means_never(world: World) -> None:
    settled(world, w1=8)
    world.rule(rules(policy("eu_data", '{"region": "eu"}')))
    world.submit(job(task("t0"), labels={"eu_data": "yes"}))

    found = why(world, "t0")
    assert (found.reason, holding(found)) == (Reason.NO_MATCHING_WORKER, words.POLICY)
    assert "eu_data-stays" in found.verdict
    assert found.expected is not None
    assert found.expected.foresight is Foresight.NEVER

    world.rule(rules(policy("eu_data", '{"region": "eu"}'), pool('{"region": "eu"}')))
    assert world.task("t0").state is S.ASSIGNED


def test_a_slow_store_is_the_schedulers_matter(world: World) -> None:
    settled(world, w1=8)
    world.settle(happened.StoreLagged(hold=P2))
    world.submit(wide(1), priority=P2)

    found = why(world, "t0")
    assert (found.reason, holding(found)) == (Reason.SCHEDULER_LAG, words.STORE)

    world.settle(happened.StoreLagged(hold=None))
    assert why(world, "t0").reason is None


def test_an_open_circuit_says_when_the_next_probe_is(world: World) -> None:
    """What was queued when it opened is put off; so is what comes."""
    storm = Storm(world, workers=1, cores=25)
    storm.submit(wide(60, FailurePolicy.FAIL_AFTER_ALL, max_attempts=1), runs=1)
    storm.seconds(1, lambda _: '{"type":"ValueError","message":"no such column"}')

    found = why(world, "t59")
    assert (found.reason, blockers(found)) == (Reason.CIRCUIT_OPEN, ["tenant0/job"])
    assert "20 of the latest 20 attempts failed" in found.verdict

    storm.until(lambda: not world.ledger.breakers, lambda _: None, most_seconds=700)
    waiting = next(task for task in world.ledger.tasks.values() if task.state is S.PENDING)
    late = why(world, waiting.name)
    assert late.reason is Reason.WAITING_TIME, "what was put off comes back at its own time"
    assert late.expected is not None
    assert late.expected.earliest == waiting.due_at


def test_a_tenant_whose_failures_are_used_up_starts_a_few_at_a_time(world: World) -> None:
    settled(world, w1=400)
    world.rule(rules(quota("acme", failures_per_hour=2)))
    run = world.submit(wide(3, FailurePolicy.FAIL_AFTER_ALL, max_attempts=1))
    world.start("t0", "t1", "t2", of=run)
    world.fail("t0", "t1", of=run)
    later = world.submit(wide(300))

    waiting = [one for one in world.ledger.tasks_of(later.id) if one.state is S.QUEUED]
    found = why(world, waiting[-1].name, later)
    assert (found.reason, holding(found)) == (Reason.RATE_LIMIT, words.FAILURES)
    assert "2 of its tasks failed within an hour (budget 2)" in found.verdict

    world.rule(rules(quota("acme", failures_per_hour=100)))
    assert why(world, waiting[-1].name, later).reason is None


def test_a_tenant_at_its_quota_is_told_which_of_its_own_frees_some(world: World) -> None:
    settled(world, w1=8)
    world.rule(rules(quota("acme", max_tasks=1)))
    run = world.submit(wide(2))

    found = why(world, "t1")
    assert (found.reason, holding(found)) == (Reason.TENANT_OVER_QUOTA, words.QUOTA)
    assert blockers(found) == [world.task("t0").id]
    assert (found.numbers["used"], found.numbers["most"]) == (1, 1)
    assert next(gate.passed for gate in found.gates if gate.name == words.ROOM) is Passed.NOT_REACHED

    world.start("t0")
    world.succeed("t0", of=run)
    assert world.task("t1").state is S.ASSIGNED


def test_what_is_older_and_beyond_the_quota_holds_up_what_would_fit(world: World) -> None:
    """The tenant is passed over until its oldest may start: the younger one is told behind whom it waits."""
    settled(world, w1=8)
    world.rule(rules(quota("acme", burst=3)))
    running = world.submit(job(task("runs", resources=cores(2))))
    world.submit(job(task("older", resources=cores(2))))
    world.advance(1, heard=["w1"])
    world.submit(job(task("younger", resources=cores(1))))

    found = why(world, "younger")
    assert (found.reason, blockers(found)[0]) == (Reason.TENANT_OVER_QUOTA, world.task("older").id)
    assert "older" in found.verdict

    world.start("runs")
    world.succeed("runs", of=running)
    assert (world.task("older").state, world.task("younger").state) == (S.ASSIGNED, S.ASSIGNED)


def test_what_alone_is_more_than_the_quota_never_starts(world: World) -> None:
    settled(world, w1=8)
    world.rule(rules(quota("acme", burst=2)))
    world.submit(job(task("large", resources=cores(3))))

    found = why(world, "large")
    assert found.reason is Reason.TENANT_OVER_QUOTA
    assert found.expected is not None
    assert found.expected.foresight is Foresight.NEVER

    world.rule(rules(quota("acme", burst=3)))
    assert world.task("large").state is S.ASSIGNED


def test_a_group_that_is_full_says_who_has_it(world: World) -> None:
    settled(world, w1=8)
    world.rule(rules(group("db", 1)))
    run = world.submit(job(in_group("a"), in_group("b")))
    grant(world)
    (first, second) = sorted("ab", key=lambda name: world.task(name).state is S.QUEUED)

    found = why(world, second)
    assert (found.reason, holding(found), blockers(found)) == (
        Reason.CONCURRENCY, words.GROUPS, [world.task(first).id],
    )  # fmt: skip
    assert found.verdict.startswith("Group db allows 1 at a time, and 1 runs; held by ")

    world.start(first)
    world.succeed(first, of=run)
    assert world.task(second).state is S.ASSIGNED


def test_a_run_that_is_not_let_in_is_told_which_run_is(world: World) -> None:
    settled(world, w1=8)
    world.rule(rules(group("db", 1)))
    inside = world.submit(counted("a"))
    grant(world)
    world.submit(counted("b"))

    found = why(world, "b")
    assert (found.reason, blockers(found)) == (Reason.CONCURRENCY, [inside.id])

    world.run_through("a")
    assert world.task("b").state is S.ASSIGNED


def test_a_pool_that_has_no_part_of_a_group_yet_does_not_blame_others(world: World) -> None:
    """It has asked for one, and other pools may have all."""
    settled(world, w1=8)
    world.rule(rules(group("db", 3)))
    world.submit(job(in_group("a")))

    found = why(world, "a")
    assert found.reason is Reason.CONCURRENCY
    assert "of which this pool has 0" in found.verdict
    assert blockers(found) == ["db"]


def test_a_group_is_not_blamed_while_there_is_no_room(world: World) -> None:
    """What is not granted is asked for once there is room: until then room is what is missing."""
    settled(world, w1=1)
    world.rule(rules(group("db", 3)))
    world.submit(wide(1))
    world.submit(job(in_group("a")))

    assert why(world, "a").reason is Reason.NO_WORKER_CAPACITY


def test_a_rate_says_when_the_next_may_start(world: World) -> None:
    settled(world, w1=8)
    world.rule(rules(group("db", 1, per_seconds=60)))
    world.submit(job(in_group("a"), in_group("b")))
    allow(world, 1, more_in=60)

    found = why(world, "b")
    assert (found.reason, holding(found), blockers(found)) == (Reason.RATE_LIMIT, words.GROUPS, ["db"])
    assert "the next can start in 1m 00s" in found.verdict


def test_p0_waits_for_no_quota(world: World) -> None:
    settled(world, w1=1)
    world.rule(rules(quota("acme", max_tasks=1)))
    submit(world, "acme", 2, P0)

    assert why(world, "acme01").reason is Reason.NO_WORKER_CAPACITY
