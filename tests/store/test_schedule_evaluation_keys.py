"""Evaluations with idempotency keys: a repeated key returns the first result."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from mainspring.core.model.schedule_rows import EvaluationBatch, ScheduleDecision
from mainspring.protocol.errors import KeyReused
from mainspring.store.ports.admin import AuditFilter
from mainspring.store.ports.store import IdempotencyKey, Store
from tests.store.admin_builders import an_entry
from tests.store.builders import a_run
from tests.store.conftest import look
from tests.store.schedule_builders import MINUTE, a_schedule, fire_once, given, rule

KEY = IdempotencyKey(tenant="acme", key="k", body_hash="a body")
OTHER_BODY = IdempotencyKey(tenant="acme", key="k", body_hash="another body")


def rule_nothing(evaluation_batch: EvaluationBatch) -> Sequence[ScheduleDecision]:
    """The schedule was changed since it was read."""
    return []


async def told(store: Store) -> int:
    """Number of entries of the audit log."""
    return len(await store.list_audit(AuditFilter(), None, 100))


async def test_a_key_that_comes_again_makes_nothing_and_tells_of_the_first_time(store: Store) -> None:
    schedule = a_schedule()
    await given(store, schedule)

    first = await store.evaluate_schedules([schedule.id], rule(fire_once), an_entry(), KEY)
    again = await store.evaluate_schedules([schedule.id], rule(fire_once), an_entry(), KEY)

    assert first.made() == [run.id for run in first.decisions[0].runs]
    assert (again.schedules, again.decisions, list(again.replayed_ids)) == (1, (), first.made())
    assert await look(store, "SELECT count(*) FROM runs") == [(1,)]
    assert await told(store) == 2


async def test_a_key_with_another_body_is_refused_and_nothing_is_written(store: Store) -> None:
    schedule, other = a_schedule(), a_schedule()
    await given(store, schedule, other)
    await store.evaluate_schedules([schedule.id], rule(fire_once), None, KEY)

    with pytest.raises(KeyReused):
        await store.evaluate_schedules([other.id], rule(fire_once), an_entry(), OTHER_BODY)

    assert await look(store, "SELECT count(*) FROM runs") == [(1,)]
    assert await told(store) == 0


async def test_a_key_of_a_run_is_the_same_key(store: Store) -> None:
    schedule = a_schedule()
    await given(store, schedule)
    await store.insert_runs([a_run()], KEY)

    with pytest.raises(KeyReused):
        await store.evaluate_schedules([schedule.id], rule(fire_once), None, OTHER_BODY)


async def test_a_key_without_a_decision_is_not_used(store: Store) -> None:
    schedule = a_schedule()
    await given(store, schedule)

    nothing = await store.evaluate_schedules([schedule.id], rule_nothing, an_entry(), KEY)
    something = await store.evaluate_schedules([schedule.id], rule(fire_once), an_entry(), KEY)

    assert (nothing.schedules, nothing.decisions, nothing.replayed_ids) == (1, (), ())
    assert len(something.decisions) == 1
    assert await told(store) == 1


async def test_of_many_who_come_at_once_one_makes_something(store: Store) -> None:
    schedules = [a_schedule(), a_schedule(next_at=a_schedule().next_at + MINUTE)]  # type: ignore[operator]
    await given(store, *schedules)

    async def evaluate_schedules(schedule_id: str) -> list[str] | None:
        try:
            evaluated = await store.evaluate_schedules(
                [schedule_id], rule(fire_once), None, IdempotencyKey(tenant="acme", key="k", body_hash=schedule_id)
            )
        except KeyReused:
            return None
        return evaluated.made() or list(evaluated.replayed_ids)

    ends = await asyncio.gather(*(evaluate_schedules(schedule.id) for schedule in schedules for _ in range(5)))

    assert await look(store, "SELECT count(*) FROM runs") == [(1,)]
    assert len({tuple(end) for end in ends if end is not None}) == 1
    assert sum(end is None for end in ends) == 5
