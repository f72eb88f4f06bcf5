"""Shares and rate grants: what a shard requests from the store, gets, uses and gives up (PLC-12)."""

from __future__ import annotations

import pytest

from mainspring.core.limits.limit_shares import ShareRow
from mainspring.core.model.task import Priority, TaskState
from mainspring.shard import events as happened
from mainspring.shard.effects import RequestRate, RequestShare
from tests.shard.groups import LIMIT, allow, counted, grant, in_group, used
from tests.shard.jobs import job
from tests.shard.sharing_rules import group, rules
from tests.shard.world import World

S = TaskState
P0, P1, P2 = Priority


def test_a_share_smaller_than_requested_is_never_exceeded(world: World) -> None:
    """Another pool has the rest."""
    world.rule(rules(group("db", 4)))
    world.register("w1", cores=10)
    world.submit(job(*(in_group(f"t{n}") for n in range(6))))
    assert world.limit_requests == [RequestShare(LIMIT, 4, 0)]

    grant(world, 1)
    assert (used(world), world.limit_requests) == (1, [])
    world.settle(happened.ShareGranted(limit=LIMIT, granted=3))
    assert used(world) == 3


def test_a_share_is_requested_once_for_the_same_need(world: World) -> None:
    world.rule(rules(group("db", 4)))
    world.register("w1", cores=10)
    world.submit(job(in_group("a"), in_group("b")))
    world.advance(3, heard=["w1"])
    assert world.limit_requests == [RequestShare(LIMIT, 2, 0)]

    world.submit(job(in_group("c")))
    assert world.limit_requests == [RequestShare(LIMIT, 2, 0), RequestShare(LIMIT, 3, 0)]


def test_a_share_is_lowered_as_usage_falls(world: World) -> None:
    """Other pools need some: usage is kept until it ends, and is not replaced."""
    world.rule(rules(group("db", 4)))
    world.register("w1", cores=10)
    run = world.submit(job(*(in_group(f"t{n}") for n in range(8))))
    grant(world)
    assert used(world) == 4

    world.settle(happened.ShareWanted(limit=LIMIT, target=2))
    assert world.ledger.shares[LIMIT].granted == 4
    world.run_through("t0", of=run)
    assert (used(world), world.ledger.shares[LIMIT].granted) == (3, 3)
    world.run_through("t1", of=run)
    assert (used(world), world.ledger.shares[LIMIT].granted) == (2, 2)

    world.run_through("t2", of=run)
    assert (used(world), world.ledger.shares[LIMIT].granted) == (2, 2)


def test_a_pool_that_lowered_its_share_requests_more_only_after_a_delay(world: World) -> None:
    """The others get what was lowered, not the pool that lowered its share."""
    world.rule(rules(group("db", 4)))
    world.register("w1", cores=10)
    world.submit(job(*(in_group(f"t{n}") for n in range(8))))
    grant(world)
    world.settle(happened.ShareWanted(limit=LIMIT, target=3))
    world.run_through("t0")
    assert world.limit_requests == []

    world.advance(4, heard=["w1"])
    assert world.limit_requests == [RequestShare(LIMIT, 4, 1)]


def test_a_grant_from_before_a_lowering_is_dropped(world: World) -> None:
    """It crossed the batch in which the share was lowered: the row has less."""
    world.rule(rules(group("db", 4)))
    world.register("w1", cores=10)
    run = world.submit(job(in_group("t0"), in_group("t1")))
    grant(world)
    world.run_through("t0", "t1", of=run)
    world.settle(happened.ShareWanted(limit=LIMIT, target=1))

    world.settle(happened.ShareGranted(limit=LIMIT, granted=4, stamp=0))
    world.submit(job(*(in_group(f"n{n}") for n in range(3))))

    assert used(world) == 1


def test_a_row_with_a_larger_share_than_used_is_corrected(world: World) -> None:
    """A dropped grant is given up when others request it."""
    world.rule(rules(group("db", 4)))
    world.register("w1", cores=10)
    world.submit(job(in_group("a")))
    grant(world)
    world.ledger.shares[LIMIT] = ShareRow(limit=LIMIT, holder="pool", granted=4, needed=4)

    world.settle(happened.ShareWanted(limit=LIMIT, target=2))

    assert world.ledger.shares[LIMIT].granted == 1


def test_a_limit_that_was_lowered_holds_at_once(world: World) -> None:
    """Running tasks continue."""
    world.rule(rules(group("db", 3)))
    world.register("w1", cores=10)
    run = world.submit(job(*(in_group(f"t{n}") for n in range(6))))
    grant(world)

    world.rule(rules(group("db", 1, version=2)))
    world.run_through("t0", "t1", of=run)
    assert used(world) == 1

    world.run_through("t2", of=run)
    assert used(world) == 1


def test_each_start_spends_one_of_a_rate(world: World) -> None:
    """PLC-12: and the next are asked for when there are more."""
    world.rule(rules(group("db", 2, per_seconds=60)))
    world.register("w1", cores=10)
    run = world.submit(job(*(in_group(f"t{n}") for n in range(5))))
    assert world.limit_requests == [RequestRate(LIMIT, 2)]

    allow(world, 2, more_in=60)
    assert world.names(S.ASSIGNED) == ["t0", "t1"]
    world.run_through("t0", "t1", of=run)
    world.advance(59, heard=["w1"])
    assert (world.names(S.ASSIGNED), world.limit_requests) == ([], [])

    world.advance(1, heard=["w1"])
    allow(world, 2, more_in=60)
    assert world.names(S.ASSIGNED) == ["t2", "t3"]


def test_a_rate_is_requested_only_for_waiting_tasks(world: World) -> None:
    world.rule(rules(group("db", 100, per_seconds=60)))
    world.register("w1", cores=10)
    world.submit(job(in_group("a"), in_group("b")))

    assert world.limit_requests == [RequestRate(LIMIT, 2)]


def test_a_rate_is_not_requested_without_capacity(world: World) -> None:
    """Unused grants are lost."""
    world.rule(rules(group("db", 1, per_seconds=60)))
    world.submit(job(in_group("a")))
    assert world.limit_requests == []

    world.register("w1")
    assert world.limit_requests == [RequestRate(LIMIT, 1)]


@pytest.mark.parametrize("by_run", [False, True])
def test_a_rate_is_requested_up_to_the_free_slots_and_again_when_there_are_more(world: World, *, by_run: bool) -> None:
    """A grant is lost after a tenth of a period: with all of it at once most would never be used."""
    world.rule(rules(group("db", 100, per_seconds=60)))
    world.register("w1", cores=2)
    names = [f"t{number}" for number in range(6)]
    for spec in [counted(name) for name in names] if by_run else [job(*map(in_group, names))]:
        world.submit(spec)

    assert _allow_all(world) == 2
    assert world.names(S.ASSIGNED) == ["t0", "t1"]

    world.run_through("t0")
    assert _allow_all(world) == 1
    assert world.names(S.ASSIGNED) == ["t1", "t2"]

    world.register("w2", cores=2)
    assert _allow_all(world) == 2


def _allow_all(world: World) -> int:
    """Grant everything that the shard requests, repeatedly; return the number of grants."""
    total = 0
    while world.limit_requests:
        (request,) = world.limit_requests
        total += request.wanted
        allow(world, request.wanted)
    return total


def test_a_rate_grant_is_valid_for_one_period(world: World) -> None:
    """The worker left before it could be used."""
    world.rule(rules(group("db", 1, per_seconds=60)))
    world.register("w1")
    world.submit(job(in_group("a")))
    world.settle(world.say(happened.WorkerLeaving, "w1"))
    allow(world, 1, more_in=60)

    world.advance(61, heard=["w1"])
    world.reconnect("w1")
    assert world.task("a").state is S.QUEUED
    allow(world, 1)
    assert world.task("a").state is S.ASSIGNED


def test_a_rate_of_runs_counts_each_once(world: World) -> None:
    """PLC-12: all tasks of an admitted run may start."""
    world.rule(rules(group("db", 1, per_seconds=60)))
    world.register("w1", cores=10)
    first, second = world.submit(counted("a", "b")), world.submit(counted("a", "b"))

    allow(world, 1, more_in=60)

    assert set(world.states(first).values()) == {S.ASSIGNED}
    assert set(world.states(second).values()) == {S.QUEUED}


def test_a_new_leader_repeats_a_request_without_reply(world: World) -> None:
    """HA-3."""
    world.rule(rules(group("db", 1, per_seconds=60)))
    world.register("w1")
    world.submit(job(in_group("a")))
    world.limit_requests.clear()

    world.new_leader()
    world.reconnect("w1")

    assert world.limit_requests == [RequestRate(LIMIT, 1)]


@pytest.mark.parametrize("more_in", [None, -1.0], ids=["nothing is said", "said too late"])
def test_an_empty_grant_is_requested_again_later(world: World, more_in: float | None) -> None:
    """The time named by the store may have passed when its reply arrives."""
    world.rule(rules(group("db", 1, per_seconds=60)))
    world.register("w1")
    world.submit(job(in_group("a")))
    allow(world, 0, more_in=more_in)
    assert world.limit_requests == []

    world.advance(1, heard=["w1"])
    assert world.limit_requests == [RequestRate(LIMIT, 1)]
