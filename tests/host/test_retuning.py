"""Changes of settings while a host leads (OPS-5)."""

from __future__ import annotations

from mainspring.core.model.settings import Tuning
from mainspring.core.model.task import TaskState
from tests.host.hall import SHARD, Hall, Hand
from tests.shard.jobs import job, task


async def test_settings_apply_to_present_and_later_leaders(hall: Hall) -> None:
    """From the next turn on, also after a reload of the memory."""
    leader = await hall.lead()
    tuning = Tuning(growth_burst=7)

    hall.hosts["h1"].retune(tuning)
    await hall.until(lambda: leader.shard.memory.tuning is tuning)

    await leader._load()
    assert leader.shard.memory.tuning is tuning
    leader.stop()
    await hall.until(lambda: hall.hosts["h1"].leaders.get(SHARD) not in (None, leader))
    assert (await hall.leader()).shard.memory.tuning is tuning


async def test_settings_apply_to_both_watches_over_workers(hall: Hall) -> None:
    """LIV-1: tasks of a silent worker are rescheduled after the new time, and not before."""
    leader = await hall.lead()
    hall.hosts["h1"].retune(Tuning(suspect_after_seconds=30.0, lost_after_seconds=40.0))
    hand = await Hand("w1", leader, "s1").welcome()
    (run,) = await hall.submit(job(task("a")))
    await hand.next_task()

    await hall.wait(25.0)
    assert [one.state for one in await hall.tasks(run)] == [TaskState.RUNNING]

    await hall.until(lambda: hall.rows("SELECT state FROM tasks") == [("QUEUED",)], within=20.0)
