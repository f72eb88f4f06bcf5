"""A database failover may lose the recorded end of a scheduled run: a sweep finds it (TRG-10)."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from mainspring.core.model.batch import Batch
from mainspring.core.model.run import RunState
from mainspring.core.schedules.triggers import ManualTrigger
from mainspring.host.schedules.schedule_outbox import UNNOTED_AFTER
from tests.host.hall import SHARD, Hall
from tests.host.timetable import Timetable


async def test_a_missed_end_is_recorded(hall: Hall) -> None:
    await hall.store.ensure_shard(SHARD)
    table = Timetable(hall)
    await table.job()
    row = await table.schedule(ManualTrigger())
    fire = (await table.book.trigger(row.id, by="ann")).fire
    term = await hall.store.campaign(SHARD, "writer", 77, timedelta(days=1))
    run = await hall.store.run(fire.run_id or "")
    assert term is not None
    assert run is not None
    ended_at = await hall.store.time()
    over = msgspec.structs.replace(run, adopted_at=ended_at, ended_at=ended_at, state=RunState.FAILED)
    await hall.store.commit(term, term.batch_no + 1, Batch(runs=[over]))

    assert await table.news.catch_up(ended_at + UNNOTED_AFTER / 2) == 0
    assert await table.news.catch_up(ended_at + 2 * UNNOTED_AFTER) == 1
    assert await table.news.catch_up(ended_at + 2 * UNNOTED_AFTER) == 0
    (noted,) = await table.fires(row)
    assert (noted.run_state, noted.run_ended_at) == (RunState.FAILED, ended_at)
