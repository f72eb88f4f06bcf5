"""Rule gates: the cause is named, and the gate passes when it is removed."""

from __future__ import annotations

from datetime import timedelta

from mainspring.core.explain import messages as words
from mainspring.core.explain.diagnosis import ExpectedKind, GateState, Reason
from mainspring.core.fairness.freezes import FreezeKind
from mainspring.core.model.run import FailurePolicy
from mainspring.core.model.task import Priority, TaskState
from mainspring.shard import events as happened
from tests.shard.diagnoses import blockers, holding, settled, why
from tests.shard.groups import allow, counted, grant, in_group
from tests.shard.jobs import cores, job, task, wide
from tests.shard.mass_failures import Storm
from tests.shard.sharing_rules import freeze, group, policy, pool, quota, rules, submit
from tests.shard.world import World

P0, P1, P2 = Priority
S = TaskState


def test_a_freeze_names_its_author_and_reason(world: World) -> None:
    settled(world, w1=8)
    world.rule(rules(freeze(FreezeKind.TENANT, "acme")))
    world.submit(wide(1))

    found = why(world, "t0")
    assert (found.reason, holding(found), blockers(found)) == (Reason.FROZEN, words.FROZEN, ["ann"])
    assert all(part in found.verdict for part in ("tenant acme", "ann", "maintenance"))
    assert found.expected is not None
    assert found.expected.kind is ExpectedKind.UNKNOWN

    world.rule(rules())
    assert why(world, "t0").reason is None


def test_a_freeze_with_an_end_has_an_expected_start(world: World) -> None:
    """Also one of the job: the task is blocked, and in no queue."""
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


def test_a_paused_run_names_its_author(world: World) -> None:
    """Its queued tasks become pending, and wait for a user like the others."""
    settled(world, w1=1)
    run = world.submit(wide(2))
    world.action(happened.PauseRun, run, why="warehouse move")

    found = why(world, "t1")
    assert (found.state, found.reason, blockers(found)) == ("PENDING", Reason.PAUSED, [run.id])
    assert "paused by ann: warehouse move" in found.verdict

    world.action(happened.ResumeRun, run)
    assert why(world, "t1").reason is Reason.NO_WORKER_CAPACITY


def test_a_held_run_names_its_fault(world: World) -> None:
    settled(world, w1=1)
    run = world.submit(wide(2))
    world.action(happened.PauseRun, run)
    world.shard.memory.runs[run.id].run.held = "its definition can't be read"

    found = why(world, "t1")
    assert found.reason is Reason.PAUSED
    assert "its definition can't be read" in found.verdict
    world.action(happened.ResumeRun, run)


def test_a_policy_that_keeps_it_out_of_the_pool_means_never(world: World) -> None:
    settled(world, w1=8)
    world.rule(rules(policy("eu_data", '{"region": "eu"}')))
    world.submit(job(task("t0"), labels={"eu_data": "yes"}))

    found = why(world, "t0")
    assert (found.reason, holding(found)) == (Reason.NO_MATCHING_WORKER, words.POLICY)
    assert "eu_data-stays" in found.verdict
    assert found.expected is not None
    assert found.expected.kind is ExpectedKind.NEVER

    world.rule(rules(policy("eu_data", '{"region": "eu"}'), pool('{"region": "eu"}')))
    assert world.task("t0").state is S.ASSIGNED


def test_a_slow_store_is_scheduler_lag(world: World) -> None:
    settled(world, w1=8)
    world.settle(happened.StoreLagged(hold=P2))
    world.submit(wide(1), priority=P2)

    found = why(world, "t0")
    assert (found.reason, holding(found)) == (Reason.SCHEDULER_LAG, words.STORE)

    world.settle(happened.StoreLagged(hold=None))
    assert why(world, "t0").reason is None


def test_an_open_circuit_breaker_names_its_job_and_cause(world: World) -> None:
    """Tasks that were queued when it opened are delayed; so are new ones."""
    storm = Storm(world, workers=1, cores=25)
    storm.submit(wide(60, FailurePolicy.FAIL_AFTER_ALL, max_attempts=1), runs=1)
    storm.seconds(1, lambda _: '{"type":"ValueError","message":"no such column"}')

    found = why(world, "t59")
    assert (found.reason, blockers(found)) == (Reason.CIRCUIT_OPEN, ["tenant0/job"])
    assert "20 of the latest 20 attempts failed" in found.verdict

    storm.until(lambda: not world.ledger.breakers, lambda _: None, most_seconds=700)
    waiting = next(task for task in world.ledger.tasks.values() if task.state is S.PENDING)
    late = why(world, waiting.name)
    assert late.reason is Reason.WAITING_TIME, "a delayed task comes back at its own time"
    assert late.expected is not None
    assert late.expected.earliest == waiting.due_at


def test_a_tenant_with_a_used_up_failure_budget_is_throttled(world: World) -> None:
    settled(world, w1=400)
    world.rule(rules(quota("acme", failures_per_hour=2)))
    run = world.submit(wide(3, FailurePolicy.FAIL_AFTER_ALL, max_attempts=1))
    world.start("t0", "t1", "t2", of=run)
    world.fail("t0", "t1", of=run)
    later = world.submit(wide(300))

    waiting = [one for one in world.ledger.tasks_of(later.id) if one.state is S.QUEUED]
    found = why(world, waiting[-1].name, later)
    assert (found.reason, holding(found)) == (Reason.RATE_LIMIT, words.FAILURES)
    assert found.numbers["failures"] == 2

    world.rule(rules(quota("acme", failures_per_hour=100)))
    assert why(world, waiting[-1].name, later).reason is None


def test_a_tenant_at_its_quota_names_the_task_that_should_finish_first(world: World) -> None:
    settled(world, w1=8)
    world.rule(rules(quota("acme", max_tasks=1)))
    run = world.submit(wide(2))

    found = why(world, "t1")
    assert (found.reason, holding(found)) == (Reason.TENANT_OVER_QUOTA, words.QUOTA)
    assert blockers(found) == [world.task("t0").id]
    assert (found.numbers["used"], found.numbers["most"]) == (1, 1)
    assert next(gate.passed for gate in found.gates if gate.name == words.CAPACITY) is GateState.NOT_REACHED

    world.start("t0")
    world.succeed("t0", of=run)
    assert world.task("t1").state is S.ASSIGNED


def test_an_older_task_beyond_the_quota_blocks_a_younger_one_that_would_fit(world: World) -> None:
    """The tenant is skipped until its oldest task may start: the younger one names it."""
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


def test_a_task_larger_than_the_quota_never_starts(world: World) -> None:
    settled(world, w1=8)
    world.rule(rules(quota("acme", burst=2)))
    world.submit(job(task("large", resources=cores(3))))

    found = why(world, "large")
    assert found.reason is Reason.TENANT_OVER_QUOTA
    assert found.expected is not None
    assert found.expected.kind is ExpectedKind.NEVER

    world.rule(rules(quota("acme", burst=3)))
    assert world.task("large").state is S.ASSIGNED


def test_a_full_group_names_its_holders(world: World) -> None:
    settled(world, w1=8)
    world.rule(rules(group("db", 1)))
    run = world.submit(job(in_group("a"), in_group("b")))
    grant(world)
    (first, second) = sorted("ab", key=lambda name: world.task(name).state is S.QUEUED)

    found = why(world, second)
    assert (found.reason, holding(found), blockers(found)) == (
        Reason.CONCURRENCY, words.GROUPS, [world.task(first).id],
    )  # fmt: skip
    assert (found.numbers["used"], found.numbers["most"]) == (1, 1)

    world.start(first)
    world.succeed(first, of=run)
    assert world.task(second).state is S.ASSIGNED


def test_a_run_that_waits_for_a_group_names_the_run_that_holds_it(world: World) -> None:
    settled(world, w1=8)
    world.rule(rules(group("db", 1)))
    inside = world.submit(counted("a"))
    grant(world)
    world.submit(counted("b"))

    found = why(world, "b")
    assert (found.reason, blockers(found)) == (Reason.CONCURRENCY, [inside.id])

    world.run_through("a")
    assert world.task("b").state is S.ASSIGNED


def test_a_pool_without_a_share_of_a_group_names_the_group(world: World) -> None:
    """It has requested one, and other pools may have all."""
    settled(world, w1=8)
    world.rule(rules(group("db", 3)))
    world.submit(job(in_group("a")))

    found = why(world, "a")
    assert found.reason is Reason.CONCURRENCY
    assert found.numbers["granted"] == 0
    assert blockers(found) == ["db"]


def test_a_group_is_not_the_cause_while_there_is_no_capacity(world: World) -> None:
    """A share is requested once there is capacity: until then capacity is missing."""
    settled(world, w1=1)
    world.rule(rules(group("db", 3)))
    world.submit(wide(1))
    world.submit(job(in_group("a")))

    assert why(world, "a").reason is Reason.NO_WORKER_CAPACITY


def test_a_rate_group_gives_its_next_start(world: World) -> None:
    settled(world, w1=8)
    world.rule(rules(group("db", 1, per_seconds=60)))
    world.submit(job(in_group("a"), in_group("b")))
    allow(world, 1, more_in=60)

    found = why(world, "b")
    assert (found.reason, holding(found), blockers(found)) == (Reason.RATE_LIMIT, words.GROUPS, ["db"])
    assert "in 1m 00s" in found.verdict


def test_p0_waits_for_no_quota(world: World) -> None:
    settled(world, w1=1)
    world.rule(rules(quota("acme", max_tasks=1)))
    submit(world, "acme", 2, P0)

    assert why(world, "acme01").reason is Reason.NO_WORKER_CAPACITY
