"""Changes of settings while a host leads (OPS-5)."""

from __future__ import annotations

from mainspring.core.model.settings import SchedulerSettings
from mainspring.core.model.task import TaskState
from tests.host.host_harness import SHARD, HostHarness, ScriptedWorker
from tests.shard.jobs import job, task


async def test_settings_apply_to_present_and_later_leaders(harness: HostHarness) -> None:
    """From the next turn on, also after a reload of the memory."""
    leader = await harness.lead()
    scheduler_settings = SchedulerSettings(fan_out_burst=7)

    harness.hosts["h1"].update_settings(scheduler_settings)
    await harness.until(lambda: leader.shard.memory.scheduler_settings is scheduler_settings)

    await leader._load()
    assert leader.shard.memory.scheduler_settings is scheduler_settings
    leader.stop()
    await harness.until(lambda: harness.hosts["h1"].leaders.get(SHARD) not in (None, leader))
    assert (await harness.leader()).shard.memory.scheduler_settings is scheduler_settings


async def test_settings_apply_to_both_watches_over_workers(harness: HostHarness) -> None:
    """LIV-1: tasks of a silent worker are rescheduled after the new time, and not before."""
    leader = await harness.lead()
    harness.hosts["h1"].update_settings(SchedulerSettings(suspect_after_seconds=30.0, lost_after_seconds=40.0))
    scripted_worker = await ScriptedWorker("w1", leader, "s1").welcome()
    (run,) = await harness.submit(job(task("a")))
    await scripted_worker.next_task()

    await harness.wait(25.0)
    assert [one.state for one in await harness.tasks(run)] == [TaskState.RUNNING]

    await harness.until(lambda: harness.rows("SELECT state FROM tasks") == [("QUEUED",)], within=20.0)
