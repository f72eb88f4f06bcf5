"""Storing and reading schedules and the outcomes of their windows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from mainspring.core.model.run import RunState
from mainspring.core.model.schedule_rows import ScheduleDecision
from mainspring.core.schedules.windows import Outcome
from mainspring.protocol.errors import Conflict, Rejected
from mainspring.store.ports.schedules import FireFilter, NewSchedule, ScheduleFilter
from mainspring.store.ports.store import Store
from tests.store.builders import HOUR, JOB, NOW, Leader, a_run, ended
from tests.store.schedule_builders import (
    MINUTE,
    a_backfill,
    a_change_of,
    a_fire,
    a_schedule,
    given,
    given_fires,
    rule,
)


async def test_a_schedule_comes_back_as_it_went_in(store: Store) -> None:
    schedule = a_schedule(
        event_type="file.arrived", after_job="load", enabled=False, paused=True, because="ann: holidays", next_at=None,
        has_waiting_windows=True, evaluated_at=NOW, latest_event_at=NOW + MINUTE, name="naïve ☃",
    )  # fmt: skip

    await given(store, schedule)

    assert await store.find_schedule(None, schedule.id) == schedule


async def test_a_name_is_used_once_in_a_tenant(store: Store) -> None:
    first = a_schedule(name="nightly")
    await given(store, first, a_schedule(name="nightly", tenant="other"))

    with pytest.raises(Conflict):
        await given(store, a_schedule(name="nightly"))

    assert len(await store.list_schedules(ScheduleFilter(), 10)) == 2


async def test_a_schedule_that_is_inserted_again_is_there_once_with_one_change(store: Store) -> None:
    schedule = a_schedule()

    await given(store, schedule, schedule)

    assert await store.schedule_changes(schedule.id, 10) == [a_change_of(schedule)]


async def test_schedules_that_come_together_are_all_kept_or_none(store: Store) -> None:
    first, second, taken, third = (a_schedule(name=name) for name in ("a", "b", "a", "c"))

    await store.insert_schedules([NewSchedule(row=row, change=a_change_of(row)) for row in (second, first)])
    with pytest.raises(Conflict):
        await store.insert_schedules([NewSchedule(row=row, change=a_change_of(row)) for row in (third, taken)])

    assert await store.list_schedules(ScheduleFilter(), 10) == [first, second]
    assert await store.schedule_changes(first.id, 10) == [a_change_of(first)]


async def test_schedules_are_found_by_their_names_but_not_those_that_are_deleted(store: Store) -> None:
    there, gone, others = a_schedule(name="a"), a_schedule(name="b"), a_schedule(name="c", tenant="other")
    await given(store, there, gone, others)
    await store.evaluate_schedules(
        [gone.id], rule(lambda case: ScheduleDecision(schedule=replace(case.schedule, deleted_at=NOW)))
    )

    assert await store.schedules_named(JOB.tenant, ["a", "b", "c", "never"]) == [there]
    assert await store.schedules_named(JOB.tenant, []) == []


async def test_the_name_of_a_deleted_schedule_is_free_again(store: Store) -> None:
    gone, new = a_schedule(name="nightly"), a_schedule(name="nightly")
    await given(store, gone)
    await store.evaluate_schedules(
        [gone.id], rule(lambda case: ScheduleDecision(schedule=replace(case.schedule, deleted_at=NOW)))
    )

    await given(store, new)

    assert await store.find_schedule(JOB.tenant, "nightly") == new


async def test_a_schedule_is_found_by_its_id_or_by_its_name_in_its_tenant(store: Store) -> None:
    schedule = a_schedule(name="nightly")
    await given(store, schedule)

    assert await store.find_schedule(JOB.tenant, schedule.id) == schedule
    assert await store.find_schedule(JOB.tenant, "nightly") == schedule
    assert await store.find_schedule("other", "nightly") is None
    assert await store.find_schedule(None, "nightly") is None
    assert await store.find_schedule(JOB.tenant, "unknown") is None


async def test_a_deleted_schedule_is_found_by_its_id_only_and_is_in_no_list(store: Store) -> None:
    schedule = a_schedule(after_job="load", has_waiting_windows=True)
    await given(store, schedule)
    gone = replace(schedule, deleted_at=NOW)
    await store.evaluate_schedules([schedule.id], rule(lambda _: ScheduleDecision(schedule=gone)))

    assert await store.find_schedule(None, schedule.id) == gone
    assert await store.find_schedule(JOB.tenant, schedule.name) is None
    assert await store.list_schedules(ScheduleFilter(), 10) == []
    assert await store.next_schedules(None, NOW + HOUR, 10) == []
    assert await store.next_due() is None
    assert await store.schedules_after([(JOB.tenant, "load")]) == []


async def test_content_that_no_store_takes_is_rejected_and_leaves_nothing(store: Store) -> None:
    for schedule in (a_schedule(name="a\0b"), a_schedule(name="a\ud800"), a_schedule(version=2**63)):
        with pytest.raises(Rejected):
            await given(store, schedule)

    assert await store.list_schedules(ScheduleFilter(), 10) == []


async def test_schedules_are_listed_by_id_as_wanted(store: Store) -> None:
    first = a_schedule(id="s1", job="load")
    second = a_schedule(id="s2", tenant="other", paused=True)
    third = a_schedule(id="s3", enabled=False)
    await given(store, third, first, second)

    async def ids(limit: int = 10, **wanted: object) -> list[str]:
        found = await store.list_schedules(ScheduleFilter(**wanted), limit)  # type: ignore[arg-type]
        return [schedule.id for schedule in found]

    assert await ids() == ["s1", "s2", "s3"]
    assert await ids(limit=2) == ["s1", "s2"]
    assert await ids(after="s1") == ["s2", "s3"]
    assert await ids(tenant="other") == ["s2"]
    assert await ids(job="load") == ["s1"]
    assert await ids(enabled=False) == ["s3"]
    assert await ids(enabled=True, paused=False) == ["s1"]
    assert await ids(paused=True) == ["s2"]


async def test_next_schedules_are_those_before_a_time_soonest_first(store: Store) -> None:
    soon, later, never = (a_schedule(next_at=at) for at in (NOW + MINUTE, NOW + HOUR, None))
    other = a_schedule(next_at=NOW, tenant="other")
    await given(store, later, never, soon, other)

    assert await store.next_schedules(None, NOW + 2 * HOUR, 10) == [other, soon, later]
    assert await store.next_schedules(None, NOW + 2 * HOUR, 2) == [other, soon]
    assert await store.next_schedules(JOB.tenant, NOW + 2 * HOUR, 10) == [soon, later]
    assert await store.next_schedules(JOB.tenant, NOW + HOUR, 10) == [soon]


async def test_next_due_is_the_time_of_the_next_one_also_if_it_is_past(store: Store) -> None:
    assert await store.next_due() is None
    await given(store, a_schedule(next_at=None))
    assert await store.next_due() is None

    later = await store.time() + HOUR
    await given(store, a_schedule(next_at=later))
    assert await store.next_due() == later

    await given(store, a_schedule(next_at=NOW))
    assert await store.next_due() == NOW


async def test_schedules_after_are_those_with_windows_that_wait_for_the_job(store: Store) -> None:
    waits = a_schedule(after_job="load", has_waiting_windows=True)
    await given(
        store,
        waits,
        a_schedule(after_job="load"),
        a_schedule(after_job="other", has_waiting_windows=True),
        a_schedule(after_job="load", has_waiting_windows=True, tenant="other"),
        a_schedule(has_waiting_windows=True),
    )

    assert await store.schedules_after([("nobody", "load"), (JOB.tenant, "load")]) == [waits.id]
    assert await store.schedules_after([(JOB.tenant, "")]) == []


async def test_a_fire_comes_back_as_it_went_in(store: Store) -> None:
    schedule = a_schedule()
    await given(store, schedule)
    fire = a_fire(
        schedule, generation=3, last_window_at=NOW + HOUR, count=7, outcome=Outcome.WAITING, because="é", flagged=True,
        is_catch_up=True, start_at=NOW, stopping=True, backfill_id="fill_1", event='{"source":"a","id":"b"}',
        params='{"a":"\\"b"}', by="ann",
    )  # fmt: skip

    await given_fires(store, schedule, fire)

    assert await store.fires(FireFilter(schedule_id=schedule.id), 10) == [fire]


async def test_the_fire_of_a_run_is_found_by_it(store: Store) -> None:
    schedule, run = a_schedule(), a_run()
    await given(store, schedule)
    fire = a_fire(schedule, outcome=Outcome.RAN, run_id=run.id)
    await given_fires(store, schedule, fire, a_fire(schedule, window_at=NOW + HOUR), runs=(run,))

    assert await store.fires_of_runs([run.id, "run_of-a-person"]) == [fire]
    assert await store.fires_of_runs([]) == []


async def test_fires_are_listed_backwards_by_window_and_generation_as_wanted(store: Store) -> None:
    schedule, other = a_schedule(), a_schedule()
    await given(store, schedule, other)
    several = a_fire(schedule, window_at=NOW, last_window_at=NOW + 2 * HOUR, count=3)
    ran = a_fire(schedule, window_at=NOW + 3 * HOUR, outcome=Outcome.RAN, run_id="run_1")
    again = a_fire(schedule, window_at=NOW + 3 * HOUR, generation=2, outcome=Outcome.RAN, backfill_id="fill_1")
    late = a_fire(schedule, window_at=NOW + 4 * HOUR, outcome=Outcome.LATE)
    await given_fires(store, schedule, several, ran, again, late)
    await given_fires(store, other, a_fire(other))

    async def found(limit: int = 10, **wanted: object) -> list[object]:
        return list(await store.fires(FireFilter(schedule_id=schedule.id, **wanted), limit))  # type: ignore[arg-type]

    assert await found() == [late, again, ran, several]
    assert await found(limit=2) == [late, again]
    assert await found(outcomes=(Outcome.SKIPPED, Outcome.LATE)) == [late, several]
    assert await found(since=NOW + 3 * HOUR) == [late, again, ran]
    assert await found(since=NOW + HOUR) == [late, again, ran, several]
    assert await found(before=NOW + 3 * HOUR) == [several]
    assert await found(backfill_id="fill_1") == [again]


async def test_changes_are_listed_the_latest_first(store: Store) -> None:
    schedule, other = a_schedule(), a_schedule()
    await given(store, schedule, other)
    paused = a_change_of(schedule, action="paused", by="bob", before="{}", after=None)
    resumed = a_change_of(schedule, action="resumed")
    await store.evaluate_schedules(
        [schedule.id], rule(lambda case: ScheduleDecision(schedule=case.schedule, changes=(paused, resumed)))
    )

    assert await store.schedule_changes(schedule.id, 10) == [resumed, paused, a_change_of(schedule)]
    assert await store.schedule_changes(schedule.id, 1) == [resumed]


async def test_backfills_are_listed_the_latest_first(store: Store) -> None:
    schedule = a_schedule()
    await given(store, schedule)
    first, second = a_backfill(schedule), a_backfill(schedule, again=True, why="wrong rates")
    await store.evaluate_schedules(
        [schedule.id], rule(lambda case: ScheduleDecision(schedule=case.schedule, backfills=(first, second)))
    )

    assert await store.backfills(schedule.id, 10) == [second, first]
    assert await store.backfills(schedule.id, 1) == [second]
    assert await store.backfills("unknown", 10) == []


async def test_a_schedule_can_be_changed_wholly_but_not_to_a_name_that_is_used(store: Store) -> None:
    schedule, other = a_schedule(name="a"), a_schedule(name="b")
    await given(store, schedule, other)
    changed = replace(
        schedule, name="c", spec='{"name":"c"}', version=2, pool="gpu", updated_at=NOW + timedelta(days=1)
    )

    await store.evaluate_schedules([schedule.id], rule(lambda _: ScheduleDecision(schedule=changed)))
    with pytest.raises(Conflict):
        await store.evaluate_schedules(
            [schedule.id], rule(lambda _: ScheduleDecision(schedule=replace(changed, name="b")))
        )

    assert await store.find_schedule(None, schedule.id) == changed


async def test_unnoted_ends_are_runs_that_are_over_while_their_fires_say_otherwise(store: Store) -> None:
    schedule = a_schedule()
    await given(store, schedule)
    leader = await Leader.of(store)
    over, noted, recent, going = (a_run(watched=True) for _ in range(4))
    await store.insert_runs([over, noted, recent, going])
    fires = [
        a_fire(schedule, window_at=NOW + n * MINUTE, outcome=Outcome.RAN, run_id=run.id)
        for n, run in enumerate([over, noted, recent, going])
    ]
    fires[1] = replace(fires[1], run_state=RunState.SUCCEEDED, run_ended_at=NOW)
    await given_fires(store, schedule, *fires)
    await leader.commit(runs=[ended(over), ended(noted), ended(recent, ended_at=NOW + HOUR)])

    (found,) = await store.unprocessed_run_ends(NOW + MINUTE, 10)
    assert (found.run_id, found.ended_at) == (over.id, NOW)
