"""Leadership: takeover, handover, and a leader that stops in time (HA-1, HA-2, I-22, I-23)."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.core.model.run import RunState
from mainspring.core.model.task import TaskState
from mainspring.protocol.errors import NotLeading
from mainspring.protocol.wire import Verdict
from tests.host.host_harness import SHARD, HostHarness, ScriptedWorker, Trouble
from tests.shard.jobs import chain, job, task

S = TaskState


async def test_one_of_two_hosts_leads(harness: HostHarness) -> None:
    """HA-1."""
    await harness.lead("h1")
    await harness.start("h2")

    await harness.wait(30.0)

    assert SHARD in harness.hosts["h1"].leaders
    assert SHARD not in harness.hosts["h2"].leaders
    assert harness.rows("SELECT count(*) FROM terms") == [(1,)]


async def test_a_host_without_the_lease_raises_not_leading(harness: HostHarness) -> None:
    """The caller asks another host."""
    host = await harness.start("h1")

    with pytest.raises(NotLeading):
        host.leader("another")


async def test_a_clean_stop_hands_over_in_under_a_second(harness: HostHarness) -> None:
    """HA-2."""
    await harness.lead("h1")
    await harness.start("h2")
    await harness.wait(3.0)

    await harness.stop("h1")
    took = await harness.until(lambda: SHARD in harness.hosts["h2"].leaders)

    assert took < 1.0


async def test_a_dead_leader_is_replaced_within_eight_seconds(harness: HostHarness) -> None:
    """HA-2: after its lease of 5 s expired."""
    await harness.lead("h1")
    await harness.start("h2")
    await harness.wait(3.0)

    harness.kill("h1")
    took = await harness.until(lambda: SHARD in harness.hosts["h2"].leaders)

    assert 3.5 < took < 8.0


async def test_a_healthy_leader_is_not_replaced_although_others_want_to(harness: HostHarness) -> None:
    """I-22: for five minutes with a slow store."""
    await harness.lead("h1")
    for name in ("h2", "h3"):
        await harness.start(name)
    harness.store.commit_seconds = 1.5

    await harness.wait(300.0)

    assert harness.rows("SELECT count(*) FROM terms") == [(1,)]


async def test_running_tasks_survive_a_takeover(harness: HostHarness) -> None:
    """HA-2, LIV-6: the worker reconnects with its running task, and the result counts."""
    leader = await harness.lead("h1")
    scripted_worker = await ScriptedWorker("w1", leader, "s1").welcome()
    (run,) = await harness.submit(chain("a", "b"))
    attempt = (await scripted_worker.next_task()).attempt
    await harness.until(lambda: ("RUNNING",) in harness.rows("SELECT state FROM tasks"))
    await harness.start("h2")
    harness.kill("h1")

    new = await harness.leader("h2")
    again = await ScriptedWorker("w1", new, "s2", holds=[attempt]).welcome()
    assert await again.finish(attempt) is Verdict.APPLIED
    await again.finish((await again.next_task()).attempt)

    assert await harness.ended(run) is RunState.SUCCEEDED
    assert harness.rows("SELECT count(*) FROM attempts") == [(2,)]


async def test_runs_submitted_without_a_leader_are_adopted(harness: HostHarness) -> None:
    """I-01."""
    await harness.lead("h1")
    harness.kill("h1")
    (run,) = await harness.submit(job(task("a")))
    await harness.start("h2")
    harness.play("h2")

    assert await harness.ended(run, within=15.0) is RunState.SUCCEEDED


async def test_a_leader_that_can_not_renew_stops_before_its_lease_expires(harness: HostHarness) -> None:
    """I-23: by its own clock; after that it issues no statement."""
    leader = await harness.lead("h1")
    await harness.wait(2.0)
    renewed = harness.store.calls[-1].at
    harness.store.trouble = lambda term, number, batch: Trouble.GONE
    await harness.until(lambda: SHARD not in harness.hosts["h1"].leaders)

    words = [call.at for call in harness.store.calls if call.term == leader.term]
    assert renewed + 3.0 < words[-1] < renewed + 4.0, "a second before its lease of five expires"


async def test_a_short_store_outage_costs_no_term(harness: HostHarness) -> None:
    """HA-4: the lease outlasts it."""
    await harness.lead("h1")
    harness.store.trouble = lambda term, number, batch: Trouble.GONE
    await harness.wait(2.5)
    harness.store.trouble = lambda term, number, batch: None
    await harness.wait(10.0)

    assert harness.rows("SELECT count(*) FROM terms") == [(1,)]


async def test_shards_are_led_again_after_a_long_store_outage(harness: HostHarness) -> None:
    """HA-4."""
    await harness.lead("h1")
    harness.store.trouble = lambda term, number, batch: Trouble.GONE
    (run,) = await harness.submit(job(task("a")))
    harness.play("h1")
    await harness.wait(60.0)
    assert harness.rows("SELECT state FROM runs") == [("PENDING",)]

    harness.store.trouble = lambda term, number, batch: None
    assert await harness.ended(run, within=20.0) is RunState.SUCCEEDED


async def test_epochs_increase_and_batch_numbers_never_restart(harness: HostHarness) -> None:
    """HA-1: over three terms."""
    numbers: list[tuple[int, int]] = []
    for name in ("h1", "h2", "h3"):
        leader = await harness.lead(name)
        numbers.append((leader.term.epoch, leader.term.batch_no))
        await harness.wait(3.0)
        await harness.stop(name)

    assert [epoch for epoch, _ in numbers] == [1, 2, 3]
    assert numbers[0][1] < numbers[1][1] < numbers[2][1]
    written = [call.number for call in harness.store.calls]
    assert written == list(range(1, len(written) + 1))


async def test_a_stop_finishes_the_current_turn(harness: HostHarness) -> None:
    """HA-2: its decisions are written before the lease is released."""
    leader = await harness.lead("h1")
    scripted_worker = await ScriptedWorker("w1", leader, "s1").welcome()
    harness.store.commit_seconds = 0.3
    (run,) = await harness.submit(job(task("a")))
    await harness.until(lambda: any(call.batch.new_tasks for call in harness.store.calls))

    await harness.stop("h1")

    assert [one.state for one in await harness.tasks(run)] == [S.ASSIGNED]
    assert scripted_worker.link.closed
    assert harness.rows("SELECT leader, nonce FROM shards") == [("", 0)]


async def test_a_host_leads_several_shards(harness: HostHarness) -> None:
    """One loop each."""
    await harness.store.ensure_shard("another")
    await harness.lead("h1")
    await harness.until(lambda: len(harness.hosts["h1"].leaders) == 2)

    await harness.stop("h1")

    assert harness.hosts["h1"].leaders == {}


async def test_a_new_leader_is_announced_before_its_first_turn(harness: HostHarness) -> None:
    """`on_lead` is for observers."""
    await harness.store.ensure_shard(SHARD)
    seen: list[int] = []
    await harness.start("h1", on_lead=lambda leader: seen.append(leader.term.batch_no))
    await harness.leader("h1")
    await asyncio.sleep(0)

    assert seen == [0]


async def test_a_leader_keeps_its_lease_during_a_long_load(harness: HostHarness) -> None:
    """I-22: a large shard takes its time."""
    harness.store.read_seconds = 12.0
    await harness.start("h1")
    await harness.start("h2")
    await harness.wait(12.0)
    harness.play("h1")
    harness.play("h2", "w2")
    (run,) = await harness.submit(job(task("a")))

    assert await harness.ended(run) is RunState.SUCCEEDED
    assert harness.rows("SELECT count(*) FROM terms") == [(1,)]


async def test_a_failed_load_is_retried(harness: HostHarness) -> None:
    """HA-4."""
    harness.store.reads_that_fail = 3
    await harness.lead("h1")
    harness.play()
    (run,) = await harness.submit(job(task("a")))

    assert await harness.ended(run) is RunState.SUCCEEDED
    assert harness.rows("SELECT count(*) FROM terms") == [(1,)]
