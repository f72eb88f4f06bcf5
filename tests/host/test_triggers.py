"""Firing of schedules by servers (TRG-4): on time and once, with crashes and clock jumps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio
from msgspec.structs import replace

from mainspring.core.model.run import RunState
from mainspring.core.model.schedule_rows import EventRow, ScheduleRow
from mainspring.core.schedules.schedule_actions import new_schedule
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.schedules.triggers import CronTrigger, EventTrigger, IntervalTrigger, OnceTrigger
from mainspring.core.schedules.windows import Outcome
from mainspring.host.schedules.evaluation_context import make_context
from mainspring.host.schedules.schedule_actions import NewScheduleRequest
from mainspring.host.schedules.trigger_loop import MAX_PER_PASS, TriggerLoop
from mainspring.protocol.errors import Refused
from mainspring.simulation.inprocess.virtual_time import START
from tests.host.host_harness import SHARD, HostHarness
from tests.host.schedule_harness import SECOND, ScheduleHarness

O = Outcome  # noqa: E741 - read as in a table
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
EVERY_TEN = IntervalTrigger(every_seconds=10)


@pytest_asyncio.fixture
async def table(harness: HostHarness) -> AsyncIterator[ScheduleHarness]:
    """Schedules, without a server that fires them."""
    table = ScheduleHarness(harness)
    await table.job()
    yield table
    await table.close()


async def many(harness: HostHarness, count: int, trigger: CronTrigger | IntervalTrigger | OnceTrigger) -> None:
    """Store a number of schedules."""
    for number in range(count):
        spec = ScheduleSpec(name=f"s{number}", job="etl", trigger=trigger)
        row, change = new_schedule(f"sched_{number}", "acme", spec, pool=SHARD, by="ann", now=harness.clock.wall())
        await harness.store.insert_schedule(row, change)


async def test_a_schedule_fires_on_time_and_its_run_is_executed(harness: HostHarness, table: ScheduleHarness) -> None:
    """From the window to the recorded end of its run; the next one follows."""
    await harness.lead()
    harness.play()
    table.start()
    row = await table.schedule(EVERY_TEN)
    await harness.wait(25)
    fires = await table.fires(row)
    assert [fire.window_at for fire in fires] == [START + 10 * SECOND, START + 20 * SECOND]
    assert [(fire.because, fire.run_state) for fire in fires] == [("on time", RunState.SUCCEEDED)] * 2
    assert all(fire.start_at is not None and fire.start_at - fire.window_at < SECOND / 50 for fire in fires)
    run = await harness.run(fires[0].run_id or "")
    assert (run.schedule_id, run.window_at, run.submitted_by) == (row.id, fires[0].window_at, "schedule:often")


async def test_a_new_schedule_fires_without_delay(harness: HostHarness, table: ScheduleHarness) -> None:
    """The sleeping loop is woken."""
    firing = asyncio.create_task(table.triggers.run())
    await harness.wait(0.5)
    await table.schedule(OnceTrigger(at=table.now() + SECOND / 10))
    assert await harness.until(lambda: bool(table.windows_run()), within=2) < 0.15
    firing.cancel()


async def test_two_servers_fire_each_window_once(harness: HostHarness, table: ScheduleHarness) -> None:
    """Each window has one run."""
    await many(harness, 200, EVERY_TEN)
    harness.store.commit_seconds = 0.01
    table.start(outbox=False)
    table.start(outbox=False)
    await harness.wait(11)
    runs = table.windows_run()
    assert len(runs) == len(set(runs)) == 200


async def test_after_a_crash_another_server_fires_the_rest(harness: HostHarness, table: ScheduleHarness) -> None:
    """Each schedule is written completely or not at all."""
    await many(harness, 2 * MAX_PER_PASS + 50, EVERY_TEN)
    harness.store.commit_seconds = 0.5
    firing = table.start(outbox=False)
    await harness.until(lambda: bool(table.windows_run()), within=15)
    firing.cancel()
    assert len(table.windows_run()) == MAX_PER_PASS
    table.start(outbox=False)
    await harness.until(lambda: len(table.windows_run()) >= 2 * MAX_PER_PASS + 50, within=5)
    runs = table.windows_run()
    assert len(runs) == len(set(runs)) == 2 * MAX_PER_PASS + 50


async def test_firing_continues_after_a_store_outage(harness: HostHarness, table: ScheduleHarness) -> None:
    """Windows that became due are fired."""
    row = await table.schedule(EVERY_TEN)
    table.start(outbox=False)
    harness.store.reads_that_fail = 15
    await harness.wait(21)
    assert await table.outcomes(row) == [O.RAN, O.WAITING]


async def test_a_clock_jump_forward_and_back_fires_each_window_once(
    harness: HostHarness, table: ScheduleHarness
) -> None:
    """The clock of SQLite is wrong for a while: the day passes once."""
    row = await table.schedule(CronTrigger(cron="0 * * * *"), max_active=9)
    table.start(outbox=False)
    harness.clock.skew = DAY
    await harness.wait(5)
    fired = await table.fires(row)
    assert [fire.count for fire in fired] == [20, 1, 1, 1, 1]
    for hour in range(0, 24, 4):
        harness.clock.skew = hour * HOUR
        await harness.wait(5)
        assert await table.fires(row) == fired
    harness.clock.skew = 25 * HOUR
    await harness.wait(5)
    assert [fire.window_at for fire in await table.fires(row)][-1] == START + 25 * HOUR
    assert len(await table.fires(row)) == 6


async def test_a_broken_schedule_does_not_stop_the_others(harness: HostHarness, table: ScheduleHarness) -> None:
    """It is paused with the reason, and an alert is raised."""
    good = await table.schedule(EVERY_TEN)
    spec = ScheduleSpec(name="bad", job="etl", trigger=EVERY_TEN)
    row, change = new_schedule("sched_bad", "acme", spec, pool=SHARD, by="ann", now=table.now())
    await harness.store.insert_schedule(replace(row, spec='{"name": "bad"}'), change)
    table.start()
    await harness.wait(12)
    assert await table.outcomes(good) == [O.RAN]
    bad = await table.row(row)
    assert (bad.paused, bad.next_at) == (True, None)
    assert "sched_bad" in bad.because
    assert table.alerts == ["event_rejected"]


async def test_a_decision_that_the_store_rejects_affects_its_schedule_only(harness: HostHarness) -> None:
    """The batch is evaluated one by one."""
    context = make_context()
    absurd = replace(context, count_tasks=lambda job: 2**80 if job.name == "bad" else 1)
    table = ScheduleHarness(harness, absurd)
    await table.job()
    await table.job("bad")
    rows: list[ScheduleRow] = [await table.schedule(EVERY_TEN, f"s{number}") for number in range(3)]
    bad = await table.schedule(EVERY_TEN, "bad", job="bad")
    table.start(outbox=False)
    await harness.wait(12)
    assert [await table.outcomes(row) for row in rows] == [[O.RAN]] * 3
    assert (await table.outcomes(bad), (await table.row(bad)).paused) == ([], True)
    await table.close()


async def test_held_schedules_fire_after_the_release(harness: HostHarness, table: ScheduleHarness) -> None:
    """Nothing is fired or swept meanwhile, and nothing is lost."""
    row = await table.schedule(EVERY_TEN)
    triggers = TriggerLoop(harness.store, harness.clock, table.evaluator)
    triggers.hold()
    firing = asyncio.create_task(triggers.run())
    await harness.wait(25)
    assert await table.outcomes(row) == []
    triggers.release()
    await harness.until(lambda: bool(table.windows_run()), within=1)
    assert [(fire.window_at, fire.outcome) for fire in await table.fires(row)] == [
        (START + 10 * SECOND, O.RAN),
        (START + 20 * SECOND, O.WAITING),
    ]
    firing.cancel()


async def test_a_listener_is_called_after_decisions_are_written(harness: HostHarness) -> None:
    """For due schedules, for actions, and for a schedule that was paused because it is broken."""
    absurd = replace(make_context(), count_tasks=lambda job: 2**80 if job.name == "bad" else 1)
    table = ScheduleHarness(harness, absurd)
    await table.job()
    await table.job("bad")
    decided = table.decided
    good = await table.schedule(EVERY_TEN)
    bad = await table.schedule(EVERY_TEN, "bad", job="bad")
    assert decided == [good.id, bad.id]
    await table.schedule_actions.pause(good.id, by="ann")
    await table.schedule_actions.resume(good.id, by="ann")
    assert decided[2:] == [good.id, good.id]
    table.start(outbox=False)
    await harness.wait(12)
    assert sorted(decided[4:]) == sorted([good.id, bad.id])
    await table.close()


async def test_a_listener_is_called_for_events_that_fire(harness: HostHarness, table: ScheduleHarness) -> None:
    """Only for the schedules concerned, and not for earlier events."""
    row = await table.schedule(EventTrigger(type="landed"))
    await table.schedule(EventTrigger(type="left"), "other")
    table.decided.clear()
    event = EventRow(
        tenant="acme", source="s", id="1", type="landed", at=table.now(), received_at=table.now(), document="{}"
    )
    assert await table.schedule_actions.receive_events("acme", [event]) == [True]
    assert await table.schedule_actions.receive_events("acme", [event]) == [False]
    assert table.decided == [row.id]


async def test_a_schedule_created_with_an_earlier_start_catches_up(
    harness: HostHarness, table: ScheduleHarness
) -> None:
    """At once; then it continues like any other."""
    spec = ScheduleSpec(name="late", job="etl", trigger=IntervalTrigger(every_seconds=600), max_active=9)
    row = await table.schedule_actions.create("acme", NewScheduleRequest(spec=spec, since=START - HOUR), by="ann")
    table.start(outbox=False)
    await harness.wait(1)
    fires = await table.fires(row)
    assert [(fire.count, fire.outcome) for fire in fires] == [(2, O.SKIPPED), *[(1, O.RAN)] * 4]
    assert (fires[0].window_at, fires[-1].window_at) == (START - HOUR + 600 * SECOND, START)
    future = NewScheduleRequest(spec=replace(spec, name="x"), since=START + HOUR)
    with pytest.raises(Refused) as to_come:
        await table.schedule_actions.create("acme", future, by="ann")
    past = replace(spec, name="once", trigger=OnceTrigger(at=START - HOUR))
    with pytest.raises(Refused) as over:
        await table.schedule_actions.create("acme", NewScheduleRequest(spec=past), by="ann")
    assert [fault.where for fault in to_come.value.faults] == ["since"]
    assert [fault.where for fault in over.value.faults] == ["trigger.at"]
    missed = NewScheduleRequest(spec=past, since=START - 2 * HOUR)
    assert (await table.schedule_actions.create("acme", missed, by="ann")).next_at == START - HOUR
