"""Freezes and policies: nothing new starts, and running tasks continue (OPS-3, ADM-8)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from mainspring.core.fairness.freezes import FreezeKind, FreezeRow
from mainspring.core.model.job import JobSpec
from mainspring.core.model.run import RunState
from mainspring.core.model.task import Priority, TaskState
from mainspring.shard import events as happened
from tests.shard.jobs import chain, job, short, task, wide
from tests.shard.sharing_rules import freeze, policy, pool, rules
from tests.shard.world import World

S = TaskState
P0, P1, P2 = Priority
EVERY_KIND = [
    freeze(FreezeKind.ALL), freeze(FreezeKind.POOL, "pool"), freeze(FreezeKind.TENANT, "acme"),
    freeze(FreezeKind.JOB, "acme/job"),
]  # fmt: skip


def named(spec: JobSpec, name: str) -> JobSpec:
    """The same job, by another name."""
    return replace(spec, name=name)


@pytest.mark.parametrize("row", EVERY_KIND, ids=lambda row: row.kind)
@pytest.mark.parametrize("priority", [P0, P2])
def test_running_tasks_continue_and_nothing_new_starts(world: World, row: FreezeRow, priority: Priority) -> None:
    """OPS-3: not even P0."""
    world.register("w1", cores=4)
    run = world.submit(chain("a", "b"), priority=priority)
    world.start("a")

    world.rule(rules(row))
    world.submit(job(task("c")), priority=priority)
    assert world.task("a").state is S.RUNNING
    assert world.task("c").state is S.QUEUED

    world.succeed("a")
    assert world.states(run) == {"a": S.SUCCEEDED, "b": S.QUEUED}

    world.rule(rules())
    assert world.task("b").state is world.task("c").state is S.ASSIGNED


@pytest.mark.parametrize("kind", list(FreezeKind))
def test_a_freeze_expires(world: World, kind: FreezeKind) -> None:
    """OPS-3: at its instant, though nothing else happens."""
    subject = {FreezeKind.TENANT: "acme", FreezeKind.JOB: "acme/job"}.get(kind, "")
    world.rule(rules(freeze(kind, subject, until=world.now + timedelta(seconds=5))))
    world.register("w1")
    world.submit(job(task("a")))
    world.advance(4, heard=["w1"])
    assert world.task("a").state is S.QUEUED

    world.advance(1, heard=["w1"])
    assert world.task("a").state is S.ASSIGNED


def test_a_freeze_does_not_affect_other_tenants(world: World) -> None:
    """OPS-3: neither other tenants, nor other jobs in the same queue."""
    world.rule(rules(freeze(FreezeKind.TENANT, "frozen"), freeze(FreezeKind.JOB, "acme/cold")))
    world.submit(job(task("a")), tenant="frozen")
    cold = world.submit(named(job(task("b")), "cold"))
    warm = world.submit(job(task("c")))

    world.register("w1", cores=4)

    assert world.task("a").state is S.QUEUED
    assert world.states(cold) == {"b": S.QUEUED}
    assert world.states(warm) == {"c": S.ASSIGNED}


def test_tasks_blocked_by_a_freeze_return_to_their_queue_position(world: World) -> None:
    """PLC-4: the frozen job came first, and is first again."""
    world.rule(rules(freeze(FreezeKind.JOB, "acme/cold")))
    cold = world.submit(named(wide(3), "cold"))
    world.advance(1)
    warm = world.submit(wide(3))
    world.register("w1")
    assert [one.name for one in world.ledger.tasks_of(warm.id) if one.state is S.ASSIGNED] == ["t0"]

    world.rule(rules())
    world.run_through("t0", of=warm)

    assert list(world.states(cold).values()) == [S.ASSIGNED, S.QUEUED, S.QUEUED]


@pytest.mark.parametrize("row", EVERY_KIND, ids=lambda row: row.kind)
def test_the_rest_of_a_group_is_recalled(world: World, row: FreezeRow) -> None:
    """OPS-3: unstarted attempts of a worker would start next."""
    world.register("w1")
    run = world.submit(job(*(short(f"s{n}") for n in range(4))))
    world.start("s0")

    world.rule(rules(row))

    assert world.recalls("w1") == [world.task(f"s{n}").attempt_id for n in range(1, 4)]
    world.give_back("s1", "s2", "s3")
    assert list(world.states(run).values()) == [S.RUNNING, S.QUEUED, S.QUEUED, S.QUEUED]


def test_a_group_of_another_tenant_is_not_recalled(world: World) -> None:
    world.register("w1")
    world.submit(job(*(short(f"s{n}") for n in range(4))))

    world.rule(rules(freeze(FreezeKind.TENANT, "other"), freeze(FreezeKind.JOB, "acme/other")))

    assert world.recalls("w1") == []


def test_a_blocked_run_can_be_cancelled_paused_and_reprioritized(world: World) -> None:
    """OPS-1."""
    world.rule(rules(freeze(FreezeKind.JOB, "acme/job")))
    world.register("w1", cores=8)
    cancelled, paused, urgent = (world.submit(wide(2)) for _ in range(3))

    world.action(happened.CancelRun, cancelled)
    world.action(happened.PauseRun, paused)
    world.action(happened.ChangePriority, urgent, priority=P0)
    assert world.run(cancelled).state is RunState.CANCELLED
    assert set(world.states(urgent).values()) == {S.QUEUED}

    world.rule(rules())
    assert set(world.states(urgent).values()) == {S.ASSIGNED}
    assert set(world.states(paused).values()) == {S.PENDING}
    world.action(happened.ResumeRun, paused)
    assert set(world.states(paused).values()) == {S.ASSIGNED}


def test_a_freeze_survives_a_change_of_leader(world: World) -> None:
    """HA-3: it is a row."""
    world.rule(rules(freeze(FreezeKind.JOB, "acme/job", until=world.now + timedelta(seconds=30))))
    world.register("w1")
    world.submit(job(task("a")))

    world.new_leader()
    world.reconnect("w1")
    world.reload()
    world.turn()
    assert world.task("a").state is S.QUEUED

    world.advance(30, heard=["w1"])
    assert world.task("a").state is S.ASSIGNED


def test_a_large_frozen_job_is_blocked_and_released_in_parts(world: World) -> None:
    """Turns stay short, and others are placed meanwhile."""
    world.rule(rules(freeze(FreezeKind.JOB, "acme/cold")))
    world.submit(named(wide(300), "cold"))
    world.submit(job(task("behind")))
    with world.rows_per_turn(20):
        world.register("w1", cores=2)
        assert world.task("behind").state is S.ASSIGNED
        assert sum(line.length for line in world.shard.memory.queues.blocked.queues()) == 300

        world.rules = rules()
        world.turn(happened.RulesChanged(rules=world.rules))
        assert len(world.shard.memory.queues.blocked.returning) > 100
        assert world.shard.has_more()
        world.settle()

    assert not world.shard.memory.queues.blocked


def test_a_run_forbidden_by_a_policy_does_not_start(world: World) -> None:
    """ADM-8: the policy came after the run; a pool with the right labels takes it."""
    eu = policy("eu_data", '{"region": "eu"}')
    world.register("w1", cores=4)
    run = world.submit(job(task("a"), task("b", "a"), labels={"eu_data": "yes"}))
    other = world.submit(job(task("c")))
    world.start("a")

    world.rule(rules(eu, pool('{"region": "us"}')))
    world.succeed("a")
    assert world.states(run) == {"a": S.SUCCEEDED, "b": S.QUEUED}
    assert world.states(other) == {"c": S.ASSIGNED}

    world.rule(rules(eu, pool('{"region": "eu"}')))
    assert world.task("b").state is S.ASSIGNED


def test_the_rest_of_a_group_forbidden_here_is_recalled(world: World) -> None:
    """ADM-8."""
    world.register("w1")
    world.submit(job(*(short(f"s{n}") for n in range(3)), labels={"eu_data": "yes"}))
    world.start("s0")

    world.rule(rules(policy("eu_data", '{"region": "eu"}')))

    assert len(world.recalls("w1")) == 2


def test_a_worker_outside_the_zones_of_the_pool_gets_nothing(world: World) -> None:
    """ADM-8: it registered, wherever it may be."""
    world.rule(rules(pool(zones=("eu-1", "eu-2"))))
    world.register("far", cores=4, zone="us-1")
    world.submit(job(task("a")))
    assert world.task("a").state is S.QUEUED

    world.register("here", zone="eu-2")
    assert world.task("a").worker_id == "here"

    world.submit(job(task("b")))
    assert world.task("b").state is S.QUEUED
    world.rule(rules(pool(zones=("eu-1", "eu-2", "us-1"))))
    assert world.task("b").worker_id == "far"
