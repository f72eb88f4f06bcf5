"""A database failover may lose the recorded end of a scheduled run: a sweep finds it (TRG-10)."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from mainspring.core.model.batch import Batch
from mainspring.core.model.run import RunState
from mainspring.core.schedules.schedule_actions import TriggerCommand
from mainspring.core.schedules.triggers import ManualTrigger
from mainspring.host.schedules.schedule_outbox import MISSED_AFTER
from tests.host.host_harness import SHARD, HostHarness
from tests.host.schedule_harness import ScheduleHarness


async def test_a_missed_end_is_recorded(harness: HostHarness) -> None:
    await harness.store.ensure_shard(SHARD)
    table = ScheduleHarness(harness)
    await table.job()
    row = await table.schedule(ManualTrigger())
    fire = (await table.schedule_actions.trigger(row.id, TriggerCommand(by="ann"))).fire
    term = await harness.store.campaign(SHARD, "writer", 77, timedelta(days=1))
    run = await harness.store.run(fire.run_id or "")
    assert term is not None
    assert run is not None
    ended_at = await harness.store.time()
    over = msgspec.structs.replace(run, adopted_at=ended_at, ended_at=ended_at, state=RunState.FAILED)
    await harness.store.commit(term, term.batch_no + 1, Batch(runs=[over]))

    assert await table.schedule_outbox.catch_up(ended_at + MISSED_AFTER / 2) == 0
    assert await table.schedule_outbox.catch_up(ended_at + 2 * MISSED_AFTER) == 1
    assert await table.schedule_outbox.catch_up(ended_at + 2 * MISSED_AFTER) == 0
    (noted,) = await table.fires(row)
    assert (noted.run_state, noted.run_ended_at) == (RunState.FAILED, ended_at)
