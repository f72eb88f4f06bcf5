"""Received events (TRG-7): stored once, and evaluated with the schedules that wait for them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from msgspec.structs import replace

from mainspring.core.model.schedule_rows import EvaluationBatch, EventRow, ScheduleDecision
from mainspring.core.schedules.windows import Outcome
from mainspring.store.ports.store import Store
from tests.store.builders import HOUR, JOB, NOW, a_run
from tests.store.conftest import look
from tests.store.schedule_builders import MINUTE, a_fire, a_schedule, an_event, given, rule
from tests.store.test_schedule_evaluation import Halt, Watching

TENANT = JOB.tenant


def fire_for_each(evaluation_batch: EvaluationBatch) -> Sequence[ScheduleDecision]:
    """A fire and a run for each event and schedule."""
    decisions = []
    for case in evaluation_batch.cases:
        fires = [
            a_fire(case.schedule, window_at=NOW + n * HOUR, event=event.document, run_id=a_run().id)
            for n, event in enumerate(evaluation_batch.events)
        ]
        runs = [a_run(id=fire.run_id) for fire in fires]
        decisions.append(ScheduleDecision(schedule=case.schedule, fires=tuple(fires), runs=tuple(runs)))
    return decisions


async def kept(store: Store) -> list[EventRow]:
    """All events, latest first."""
    return await store.list_events(None, None, None, 100)


async def test_events_that_are_new_are_kept_and_others_are_not(store: Store) -> None:
    first, second = an_event(subject="a.csv"), an_event()

    assert await store.receive_events(TENANT, [first], Watching()) == [True]
    assert await store.receive_events(TENANT, [second, first], Watching()) == [True, False]

    assert [event.id for event in await kept(store)] == [second.id, first.id]


async def test_an_event_is_the_same_if_its_tenant_source_and_id_are(store: Store) -> None:
    event = an_event()

    assert await store.receive_events(TENANT, [event], Watching()) == [True]
    assert await store.receive_events(TENANT, [replace(event, type="another", document="{}")], Watching()) == [False]
    assert await store.receive_events(TENANT, [replace(event, source="/other")], Watching()) == [True]
    assert await store.receive_events("other", [replace(event, tenant="other")], Watching()) == [True]

    assert len(await kept(store)) == 3


async def test_of_two_events_with_the_same_key_in_one_call_the_first_one_counts(store: Store) -> None:
    first = an_event(subject="first")
    events = [first, replace(first, subject="second"), an_event(), replace(first, subject="third")]

    assert await store.receive_events(TENANT, events, Watching()) == [True, False, True, False]

    assert [event.subject for event in await kept(store)] == ["", "first"]


async def test_schedules_of_the_tenant_that_wait_for_the_type_are_evaluated(store: Store) -> None:
    waits = a_schedule(event_type="file.arrived")
    await given(
        store,
        waits,
        a_schedule(event_type="file.gone"),
        a_schedule(event_type="file.arrived", tenant="other"),
        a_schedule(event_type="file.arrived", deleted_at=NOW),
        a_schedule(),
    )
    watching = Watching()

    await store.receive_events(TENANT, [an_event(), an_event(type="")], watching)

    assert [case.schedule for case in watching.evaluation_batches[0].cases] == [waits]


async def test_what_is_decided_on_are_the_new_events_in_the_order_in_which_they_came(store: Store) -> None:
    await given(store, a_schedule(event_type="file.arrived"))
    known, *new = (an_event() for _ in range(4))
    await store.receive_events(TENANT, [known], Watching())
    before = await store.time()
    watching = Watching()

    await store.receive_events(TENANT, [new[2], known, new[0], new[1]], watching)

    (evaluation_batch,) = watching.evaluation_batches
    assert [event.id for event in evaluation_batch.events] == [new[2].id, new[0].id, new[1].id]
    assert all(before <= event.received_at < before + MINUTE for event in evaluation_batch.events)
    assert set(evaluation_batch.events) <= set(await kept(store))


async def test_nothing_is_decided_if_nothing_is_new(store: Store) -> None:
    await given(store, a_schedule(event_type="file.arrived"))
    event = an_event()
    await store.receive_events(TENANT, [event], Watching())
    watching = Watching()

    assert await store.receive_events(TENANT, [event, event], watching) == [False, False]
    assert await store.receive_events(TENANT, [], watching) == []

    assert watching.evaluation_batches == []


async def test_how_many_fires_name_an_event_is_kept_with_it(store: Store) -> None:
    await given(store, a_schedule(event_type="file.arrived"), a_schedule(event_type="file.arrived"))
    first, second = an_event(), an_event(type="nobody waits for it")

    await store.receive_events(TENANT, [first], fire_for_each)
    await store.receive_events(TENANT, [second], fire_for_each)

    assert {event.id: event.fires for event in await kept(store)} == {first.id: 2, second.id: 0}
    assert await look(store, "SELECT count(*) FROM runs") == [(2,)]


async def test_a_fire_that_is_evaluated_again_with_a_later_event_counts_once(store: Store) -> None:
    schedule = a_schedule(event_type="file.arrived")
    await given(store, schedule)
    first, second = an_event(), an_event()
    waits = a_fire(schedule, outcome=Outcome.WAITING, event=first.document)
    more = a_fire(schedule, window_at=NOW + HOUR, outcome=Outcome.WAITING, event=first.document)
    later = a_fire(schedule, window_at=NOW + 2 * HOUR, event=second.document)

    await store.receive_events(
        TENANT, [first], rule(lambda case: ScheduleDecision(schedule=case.schedule, fires=(waits, more)))
    )
    await store.receive_events(
        TENANT, [second], rule(lambda case: ScheduleDecision(schedule=case.schedule, fires=(waits, later)))
    )

    assert {event.id: event.fires for event in await kept(store)} == {first.id: 2, second.id: 1}


async def test_runs_for_events_are_made_known(store: Store) -> None:
    await given(store, a_schedule(event_type="file.arrived"))
    told: list[str] = []
    store.on_work(lambda shard, _: told.append(shard))

    await store.receive_events(TENANT, [an_event()], fire_for_each)

    assert told == ["main"]


async def test_events_whose_evaluation_fails_are_not_kept(store: Store) -> None:
    await given(store, a_schedule(event_type="file.arrived"))

    def halt(_: EvaluationBatch) -> Sequence[ScheduleDecision]:
        raise Halt

    with pytest.raises(Halt):
        await store.receive_events(TENANT, [an_event()], halt)

    assert await kept(store) == []


async def test_events_are_listed_by_when_they_came_the_latest_first_as_wanted(store: Store) -> None:
    events = [an_event(), an_event(type="file.gone"), an_event()]
    await store.receive_events(TENANT, events[:2], Watching())
    await store.receive_events("other", events[2:], Watching())
    third, second, first = await kept(store)

    assert [event.id for event in (first, second, third)] == [event.id for event in events]
    assert first.received_at < second.received_at <= third.received_at - timedelta(microseconds=1)
    assert await store.list_events(TENANT, None, None, 10) == [second, first]
    assert await store.list_events(None, "file.gone", None, 10) == [second]
    assert await store.list_events(None, None, third.received_at, 10) == [second, first]
    assert await store.list_events(None, None, None, 1) == [third]
