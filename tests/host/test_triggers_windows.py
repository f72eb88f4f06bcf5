"""Windows on a server: overlap, other jobs, files, events, backfills, failures (TRG-7 to TRG-12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import msgspec
import pytest
import pytest_asyncio

from mainspring.core.model.run import RunState
from mainspring.core.model.schedule_rows import EventRow
from mainspring.core.schedules.backfill import BackfillCommand
from mainspring.core.schedules.evaluate import Ended, record_run_ends
from mainspring.core.schedules.schedule_actions import TriggerCommand, new_schedule
from mainspring.core.schedules.schedule_spec import After, Condition, Overlap, ScheduleSpec
from mainspring.core.schedules.triggers import CronTrigger, EventTrigger, Expected, IntervalTrigger, ManualTrigger
from mainspring.core.schedules.windows import Outcome
from mainspring.protocol.errors import Conflict, NotFound, Refused
from mainspring.protocol.wire import FileProbed, ProbeFile
from mainspring.simulation.inprocess.virtual_time import START
from tests.host.host_harness import HostHarness, ScriptedWorker
from tests.host.schedule_harness import SECOND, ScheduleHarness

O = Outcome  # noqa: E741 - read as in a table
HOUR = timedelta(hours=1)
EVERY_TEN = IntervalTrigger(every_seconds=10)
READY = EventTrigger(type="orders.ready")


@pytest_asyncio.fixture
async def table(harness: HostHarness) -> AsyncIterator[ScheduleHarness]:
    """Schedules of a server that fires and delivers, without workers."""
    table = ScheduleHarness(harness)
    await table.job()
    await table.job("extract")
    await harness.lead()
    table.start()
    yield table
    await table.close()


def an_event(table: ScheduleHarness, id: str, **data: int) -> EventRow:
    """An event as the API stores it."""
    document = {"specversion": "1.0", "id": id, "source": "/shop", "type": "orders.ready", "data": data}
    return EventRow(
        tenant="acme", source="/shop", id=id, type="orders.ready", at=table.now(), received_at=table.now(),
        document=msgspec.json.encode(document).decode(),
    )  # fmt: skip


async def test_the_end_of_a_run_starts_the_next_window(harness: HostHarness, table: ScheduleHarness) -> None:
    """Within a moment, through the outbox."""
    row = await table.schedule(EVERY_TEN)
    await harness.wait(25)
    assert await table.outcomes(row) == [O.RAN, O.WAITING]
    harness.play()
    await harness.wait(2)
    fires = await table.fires(row)
    assert [fire.outcome for fire in fires] == [O.RAN, O.RAN]
    assert (await table.row(row)).has_waiting_windows is False


async def test_a_missed_end_of_another_job_is_found_by_the_sweep(harness: HostHarness, table: ScheduleHarness) -> None:
    """The other job succeeded, but the server that was to process it had crashed."""
    extract = await table.schedule(ManualTrigger(), "extract", job="extract")
    load = await table.schedule(EVERY_TEN, after=After(job="extract", within_seconds=3600), max_active=9)
    await harness.wait(11)
    assert await table.outcomes(load) == [O.WAITING]
    fire = (await table.schedule_actions.trigger(extract.id, TriggerCommand(by="ann"))).fire
    ended = Ended(fire=fire, state=RunState.SUCCEEDED, at=table.now())
    await table.evaluator.evaluate_schedules(
        [extract.id],
        lambda evaluation_batch, context: record_run_ends(evaluation_batch, context, {extract.id: [ended]}),
    )
    assert (await table.outcomes(load))[0] is O.WAITING
    await harness.wait(6)
    assert (await table.outcomes(load))[0] is O.RAN


async def test_a_running_window_is_cancelled_for_the_next(harness: HostHarness, table: ScheduleHarness) -> None:
    """Its leader is asked; when it has ended the newest window starts."""
    row = await table.schedule(EVERY_TEN, overlap=Overlap.CANCEL_RUNNING)
    await harness.wait(24)
    first, second = await table.fires(row)
    assert (first.stopping, first.run_state, second.outcome) == (True, RunState.CANCELLED, O.RAN)
    cancelled = await harness.run(first.run_id or "")
    assert cancelled.cancelled_by == "schedule"
    assert f"{second.window_at:%Y-%m-%dT%H:%M:%SZ}" in cancelled.because


async def test_a_job_starts_after_another_job(harness: HostHarness, table: ScheduleHarness) -> None:
    """TRG-8: when the other job's run of the same window has ended."""
    harness.play()
    await table.schedule(EVERY_TEN, "extract", job="extract")
    load = await table.schedule(EVERY_TEN, "load", after=After(job="extract"))
    await harness.wait(13)
    [fire] = await table.fires(load)
    assert fire.outcome is O.RAN
    assert fire.start_at is not None
    assert fire.start_at > fire.window_at
    assert fire.because.startswith("waited ")


async def test_a_file_is_probed_by_a_worker(harness: HostHarness, table: ScheduleHarness) -> None:
    """TRG-8: first without a worker; then one finds the file, and later not."""
    row = await table.schedule(EVERY_TEN, condition=Condition(file_exists="/data/ready"), max_active=9)
    await harness.wait(12)
    assert await table.outcomes(row) == [O.WAITING]
    scripted_worker = await ScriptedWorker("w1", harness.hosts["h1"].leaders["pool"], "s1").welcome()
    beating = asyncio.create_task(scripted_worker.beat())
    look = await scripted_worker.expect(ProbeFile, within=30)
    assert look.path == "/data/ready"
    scripted_worker.send(FileProbed(look.question, exists=True))
    await harness.wait(0.1)
    assert (await table.outcomes(row))[0] is O.RAN
    look = await scripted_worker.expect(ProbeFile, within=30)
    scripted_worker.send(FileProbed(look.question, exists=False))
    await harness.wait(0.1)
    unmet = (await table.fires(row))[1]
    assert unmet.outcome is O.CONDITION_FALSE
    assert "/data/ready" in unmet.because
    beating.cancel()


async def test_events_are_taken_once(harness: HostHarness, table: ScheduleHarness) -> None:
    """TRG-7: a duplicate is not a new event; the run gets the event."""
    row = await table.schedule(
        EventTrigger(type="orders.ready", filter="event.data.rows > 0"), max_active=9, params=msgspec.Raw(b'{"a":1}')
    )
    events = [an_event(table, "e1", rows=1), an_event(table, "e2", rows=0), an_event(table, "e1", rows=1)]
    assert await table.schedule_actions.receive_events("acme", events) == [True, True, False]
    assert await table.schedule_actions.receive_events("acme", events) == [False, False, False]
    [fire] = await table.fires(row)
    params = msgspec.json.decode((await harness.run(fire.run_id or "")).params)
    assert (params["a"], params["event"]["id"]) == (1, "e1")
    kept = await harness.store.list_events("acme", None, None, 10)
    assert {event.id: event.fires for event in kept} == {"e1": 1, "e2": 0}


async def test_events_reach_other_schedules_if_one_is_broken(harness: HostHarness, table: ScheduleHarness) -> None:
    """The broken one is paused."""
    good = await table.schedule(READY, "good")
    spec = ScheduleSpec(name="bad", job="etl", trigger=READY)
    row, change = new_schedule("sched_bad", "acme", spec, pool="pool", by="ann", now=table.now())
    await harness.store.insert_schedule(msgspec.structs.replace(row, spec="{}"), change)
    assert await table.schedule_actions.receive_events("acme", [an_event(table, "e1")]) == [True]
    assert await table.outcomes(good) == [O.RAN]
    assert (await table.row(row)).paused


async def test_a_missing_event_fires_flagged_and_alerts(harness: HostHarness, table: ScheduleHarness) -> None:
    """TRG-7: the run is flagged and an alert raised; the event that arrives resolves it."""
    expected = Expected(cron="* * * * *", buffer_seconds=5)
    row = await table.schedule(EventTrigger(type="orders.ready", expected=expected), max_active=9)
    await harness.wait(67)
    assert [(fire.window_at, fire.flagged) for fire in await table.fires(row)] == [(START + 60 * SECOND, True)]
    await table.schedule_actions.receive_events("acme", [an_event(table, "e1")])
    await harness.wait(60)
    assert [(fire.outcome, fire.flagged) for fire in await table.fires(row)] == [
        (O.RAN, True), (O.RAN, False), (O.SKIPPED, False),
    ]  # fmt: skip
    assert table.alerts == ["event_missing", "event_missing over"]


async def test_a_backfill_runs_to_its_end(harness: HostHarness, table: ScheduleHarness) -> None:
    """TRG-9: two at a time, as the dry run said."""
    row = await table.schedule(CronTrigger(cron="0 * * * *"))
    request = BackfillCommand(since=START - 5 * HOUR, before=START, max_parallel=2, by="ann", why="lost")
    planned = await table.schedule_actions.plan_backfill(row.id, request)
    backfilled = await table.schedule_actions.backfill(row.id, request)
    kept = backfilled.row
    assert (planned, planned.total, kept.windows) == (backfilled.planned, 5, 5)
    assert (await table.outcomes(row)).count(O.RAN) == 2
    harness.play()
    await harness.wait(10)
    fires = await table.fires(row)
    assert [(fire.run_state, fire.backfill_id) for fire in fires] == [(RunState.SUCCEEDED, kept.id)] * 5
    again = await table.schedule_actions.plan_backfill(row.id, request)
    assert [window.is_wanted for window in again.windows] == [False] * 5


async def test_consecutive_failures_disable_a_schedule_and_alert(harness: HostHarness, table: ScheduleHarness) -> None:
    """TRG-10: from the ends of runs; resuming enables it again."""
    row = await table.schedule(EVERY_TEN, max_consecutive_failures=4)
    for _ in range(4):
        await harness.wait(10.5)
        await table.end((await table.fires(row))[-1], RunState.FAILED)
    await harness.wait(2)
    disabled = await table.row(row)
    assert not disabled.enabled
    assert "4" in disabled.because
    assert table.alerts == ["schedule_failing", "schedule_disabled"]
    resumed = await table.schedule_actions.resume(row.id, by="ann", why="fixed")
    assert resumed.enabled
    await harness.wait(10.5)
    assert table.alerts[2:] == ["schedule_disabled over", "schedule_failing over", "event_rejected over"]
    assert len(await table.fires(row)) == 5
    changes = await harness.store.schedule_changes(row.id, 10)
    assert [(change.action, change.by) for change in changes] == [
        ("enabled", "ann"), ("disabled", "mainspring"), ("created", "ann"),
    ]  # fmt: skip


async def test_actions_on_a_schedule(harness: HostHarness, table: ScheduleHarness) -> None:
    """TRG-11: each is one evaluation, and reports what is wrong."""
    schedule_actions, row = table.schedule_actions, await table.schedule(CronTrigger(cron="@hourly"))
    with pytest.raises(Conflict, match="often"):
        await table.schedule(EVERY_TEN)
    with pytest.raises(Refused) as refused:
        await table.schedule(EVERY_TEN, "other", job="lost")
    assert [fault.where for fault in refused.value.faults] == ["job"]
    with pytest.raises(NotFound):
        await schedule_actions.pause("sched_unknown", by="ann")
    await schedule_actions.pause(row.id, by="ann")
    first = (await schedule_actions.trigger(row.id, TriggerCommand(by="ann", params='{"a":1}'))).fire
    again = (await schedule_actions.trigger(row.id, TriggerCommand(by="ann", window_at=first.window_at))).fire
    assert (again.generation, again.repeats) == (2, first.run_id)
    assert (await harness.run(again.run_id or "")).linked_run == first.run_id
    spec = msgspec.json.decode(row.spec, type=ScheduleSpec)
    changed = await schedule_actions.change(row.id, msgspec.structs.replace(spec, max_active=3), by="ann")
    assert (changed.version, changed.paused, changed.next_at) == (2, True, None)
    with pytest.raises(Refused, match="max_active"):
        await schedule_actions.change(row.id, msgspec.structs.replace(spec, max_active=0), by="ann")
    await schedule_actions.delete(row.id, by="ann")
    with pytest.raises(NotFound):
        await schedule_actions.find("acme", "often")


async def test_upcoming_windows(harness: HostHarness, table: ScheduleHarness) -> None:
    """Of all schedules, soonest first."""
    await table.schedule(CronTrigger(cron="0 * * * *"), "hourly")
    await table.schedule(CronTrigger(cron="30 */2 * * *"), "odd")
    paused = await table.schedule(EVERY_TEN, "paused")
    await table.schedule_actions.pause(paused.id, by="ann")
    found = await table.schedule_actions.upcoming("acme", START + 4 * HOUR, 4)
    assert [(one.schedule.name, (one.window_at - START) / HOUR) for one in found] == [
        ("odd", 0.5), ("hourly", 1), ("hourly", 2), ("odd", 2.5),
    ]  # fmt: skip
