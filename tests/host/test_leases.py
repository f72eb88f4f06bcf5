"""Leadership: takeover, handover, and a leader that stops in time (HA-1, HA-2, I-22, I-23)."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.core.model.run import RunState
from mainspring.core.model.task import TaskState
from mainspring.protocol.errors import NotLeading
from mainspring.protocol.wire import Verdict
from tests.host.hall import SHARD, Hall, Hand, Trouble
from tests.shard.jobs import chain, job, task

S = TaskState


async def test_one_of_two_hosts_leads(hall: Hall) -> None:
    """HA-1."""
    await hall.lead("h1")
    await hall.start("h2")

    await hall.wait(30.0)

    assert SHARD in hall.hosts["h1"].leaders
    assert SHARD not in hall.hosts["h2"].leaders
    assert hall.rows("SELECT count(*) FROM terms") == [(1,)]


async def test_a_host_without_the_lease_raises_not_leading(hall: Hall) -> None:
    """The caller asks another host."""
    host = await hall.start("h1")

    with pytest.raises(NotLeading):
        host.leader("another")


async def test_a_clean_stop_hands_over_in_under_a_second(hall: Hall) -> None:
    """HA-2."""
    await hall.lead("h1")
    await hall.start("h2")
    await hall.wait(3.0)

    await hall.stop("h1")
    took = await hall.until(lambda: SHARD in hall.hosts["h2"].leaders)

    assert took < 1.0


async def test_a_dead_leader_is_replaced_within_eight_seconds(hall: Hall) -> None:
    """HA-2: after its lease of 5 s expired."""
    await hall.lead("h1")
    await hall.start("h2")
    await hall.wait(3.0)

    hall.kill("h1")
    took = await hall.until(lambda: SHARD in hall.hosts["h2"].leaders)

    assert 3.5 < took < 8.0


async def test_a_healthy_leader_is_not_replaced_although_others_want_to(hall: Hall) -> None:
    """I-22: for five minutes with a slow store."""
    await hall.lead("h1")
    for name in ("h2", "h3"):
        await hall.start(name)
    hall.store.commit_seconds = 1.5

    await hall.wait(300.0)

    assert hall.rows("SELECT count(*) FROM terms") == [(1,)]


async def test_running_tasks_survive_a_takeover(hall: Hall) -> None:
    """HA-2, LIV-6: the worker reconnects with its running task, and the result counts."""
    leader = await hall.lead("h1")
    hand = await Hand("w1", leader, "s1").welcome()
    (run,) = await hall.submit(chain("a", "b"))
    attempt = (await hand.next_task()).attempt
    await hall.until(lambda: ("RUNNING",) in hall.rows("SELECT state FROM tasks"))
    await hall.start("h2")
    hall.kill("h1")

    new = await hall.leader("h2")
    again = await Hand("w1", new, "s2", holds=[attempt]).welcome()
    assert await again.finish(attempt) is Verdict.APPLIED
    await again.finish((await again.next_task()).attempt)

    assert await hall.ended(run) is RunState.SUCCEEDED
    assert hall.rows("SELECT count(*) FROM attempts") == [(2,)]


async def test_runs_submitted_without_a_leader_are_adopted(hall: Hall) -> None:
    """I-01."""
    await hall.lead("h1")
    hall.kill("h1")
    (run,) = await hall.submit(job(task("a")))
    await hall.start("h2")
    hall.play("h2")

    assert await hall.ended(run, within=15.0) is RunState.SUCCEEDED


async def test_a_leader_that_can_not_renew_stops_before_its_lease_expires(hall: Hall) -> None:
    """I-23: by its own clock; after that it issues no statement."""
    leader = await hall.lead("h1")
    await hall.wait(2.0)
    renewed = hall.store.calls[-1].at
    hall.store.trouble = lambda term, number, batch: Trouble.GONE
    await hall.until(lambda: SHARD not in hall.hosts["h1"].leaders)

    words = [call.at for call in hall.store.calls if call.term == leader.term]
    assert renewed + 3.0 < words[-1] < renewed + 4.0, "a second before its lease of five expires"


async def test_a_short_store_outage_costs_no_term(hall: Hall) -> None:
    """HA-4: the lease outlasts it."""
    await hall.lead("h1")
    hall.store.trouble = lambda term, number, batch: Trouble.GONE
    await hall.wait(2.5)
    hall.store.trouble = lambda term, number, batch: None
    await hall.wait(10.0)

    assert hall.rows("SELECT count(*) FROM terms") == [(1,)]


async def test_shards_are_led_again_after_a_long_store_outage(hall: Hall) -> None:
    """HA-4."""
    await hall.lead("h1")
    hall.store.trouble = lambda term, number, batch: Trouble.GONE
    (run,) = await hall.submit(job(task("a")))
    hall.play("h1")
    await hall.wait(60.0)
    assert hall.rows("SELECT state FROM runs") == [("PENDING",)]

    hall.store.trouble = lambda term, number, batch: None
    assert await hall.ended(run, within=20.0) is RunState.SUCCEEDED


async def test_epochs_increase_and_batch_numbers_never_restart(hall: Hall) -> None:
    """HA-1: over three terms."""
    numbers: list[tuple[int, int]] = []
    for name in ("h1", "h2", "h3"):
        leader = await hall.lead(name)
        numbers.append((leader.term.epoch, leader.term.batch_no))
        await hall.wait(3.0)
        await hall.stop(name)

    assert [epoch for epoch, _ in numbers] == [1, 2, 3]
    assert numbers[0][1] < numbers[1][1] < numbers[2][1]
    written = [call.number for call in hall.store.calls]
    assert written == list(range(1, len(written) + 1))


async def test_a_stop_finishes_the_current_turn(hall: Hall) -> None:
    """HA-2: its decisions are written before the lease is released."""
    leader = await hall.lead("h1")
    hand = await Hand("w1", leader, "s1").welcome()
    hall.store.commit_seconds = 0.3
    (run,) = await hall.submit(job(task("a")))
    await hall.until(lambda: any(call.batch.new_tasks for call in hall.store.calls))

    await hall.stop("h1")

    assert [one.state for one in await hall.tasks(run)] == [S.ASSIGNED]
    assert hand.link.closed
    assert hall.rows("SELECT leader, nonce FROM shards") == [("", 0)]


async def test_a_host_leads_several_shards(hall: Hall) -> None:
    """One loop each."""
    await hall.store.ensure_shard("another")
    await hall.lead("h1")
    await hall.until(lambda: len(hall.hosts["h1"].leaders) == 2)

    await hall.stop("h1")

    assert hall.hosts["h1"].leaders == {}


async def test_a_new_leader_is_announced_before_its_first_turn(hall: Hall) -> None:
    """`on_lead` is for observers."""
    await hall.store.ensure_shard(SHARD)
    host = await hall.start("h1")
    seen: list[int] = []
    host.on_lead = lambda leader: seen.append(leader.term.batch_no)
    await hall.leader("h1")
    await asyncio.sleep(0)

    assert seen == [0]


async def test_a_leader_keeps_its_lease_during_a_long_load(hall: Hall) -> None:
    """I-22: a large shard takes its time."""
    hall.store.read_seconds = 12.0
    await hall.start("h1")
    await hall.start("h2")
    await hall.wait(12.0)
    hall.play("h1")
    hall.play("h2", "w2")
    (run,) = await hall.submit(job(task("a")))

    assert await hall.ended(run) is RunState.SUCCEEDED
    assert hall.rows("SELECT count(*) FROM terms") == [(1,)]


async def test_a_failed_load_is_retried(hall: Hall) -> None:
    """HA-4."""
    hall.store.reads_that_fail = 3
    await hall.lead("h1")
    hall.play()
    (run,) = await hall.submit(job(task("a")))

    assert await hall.ended(run) is RunState.SUCCEEDED
    assert hall.rows("SELECT count(*) FROM terms") == [(1,)]
