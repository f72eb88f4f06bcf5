"""Changes of a folder at runtime: the table of changes, on a real server (FLD-3, FLD-5)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mainspring.folder.state.records import ARCHIVE_FILE, STATE_FILE
from tests.folder.folder_harness import NEVER, put, running_folder, state, text

pytestmark = pytest.mark.processes


async def test_edit_break_and_fix(tmp_path: Path) -> None:
    put(tmp_path, "a", text())
    put(tmp_path, "b", text())
    async with running_folder(tmp_path) as harness:
        first = harness.source.find("a")
        other = (await harness.client.schedule(harness.source.find("b").schedule_id)).version

        put(tmp_path, "a", text(cron="0 9 * * *"))
        changed = await harness.wait_for_event("schedule:changed")
        assert (changed.schedule_id, changed.change) == (first.schedule_id, "updated")
        assert harness.source.find("a").config.cron == "0 9 * * *"
        assert state(tmp_path, "a")["nextRun"].endswith("T09:00:00.000Z")

        put(tmp_path, "a", text(cron="0 99 * * *"))
        broken = await harness.wait_for_event("file:broken")
        assert broken.file == "a/pipeline.yaml"
        assert "a/pipeline.yaml:3" in broken.errors
        assert broken.keeps_running
        assert (await harness.client.schedule(first.schedule_id)).next_at is not None
        assert harness.source.find("a").config.cron == "0 9 * * *"
        await harness.run_now("a")
        assert state(tmp_path, "a")["stats"]["totalRuns"] == 1

        put(tmp_path, "a", text(cron="0 10 * * *"))
        assert (await harness.wait_for_event("file:fixed")).file == "a/pipeline.yaml"
        assert (await harness.wait_for_event("schedule:changed")).change == "updated"
        assert state(tmp_path, "a")["nextRun"].endswith("T10:00:00.000Z")
        assert state(tmp_path, "a")["stats"]["totalRuns"] == 1
        assert (await harness.client.schedule(harness.source.find("b").schedule_id)).version == other


async def test_a_refusal_by_the_server_is_reported_with_its_line(tmp_path: Path) -> None:
    async with running_folder(tmp_path) as harness:
        too_much = text().replace('"}', '", resources: {memory: 2000TiB}}')
        put(tmp_path, "a", too_much)

        broken = await harness.wait_for_event("file:broken")

        assert "a/pipeline.yaml:6" in broken.errors
        assert not broken.keeps_running
        assert harness.source.schedules() == []
        assert not (tmp_path / "a" / STATE_FILE).exists()


async def test_the_job_of_a_tenant_is_deleted_with_its_file(tmp_path: Path) -> None:
    put(tmp_path, "a", f"tenant: acme\n{text()}")
    put(tmp_path, "b", f"tenant: acme\n{text(cron=None)}")
    async with running_folder(tmp_path) as harness:
        assert await harness.server_jobs() == {"a", "b"}

        shutil.rmtree(tmp_path / "b")
        shutil.rmtree(tmp_path / "a")
        await harness.wait_for_event("schedule:changed", pipeline_id="a", change="removed")
        await harness.source.close()

    async with running_folder(tmp_path, watches=False) as harness:
        assert await harness.server_jobs() == set()


async def test_rename_copy_and_delete(tmp_path: Path) -> None:
    put(tmp_path, "a", text())
    async with running_folder(tmp_path) as harness:
        first = harness.source.find("a").schedule_id
        await harness.run_now("a")

        (tmp_path / "a").rename(tmp_path / "moved")
        await harness.wait_for_event("schedule:changed", schedule_id=first, change="updated")
        assert await harness.server_schedules() == {first: "moved"}
        assert await harness.server_jobs() == {"moved"}
        assert state(tmp_path, "moved")["pipelineId"] == "moved"
        await harness.run_now("moved")
        assert state(tmp_path, "moved")["stats"]["totalRuns"] == 2

        shutil.copytree(tmp_path / "moved", tmp_path / "copy")
        copied = await harness.wait_for_event("schedule:changed", change="added")
        assert copied.schedule_id != first
        assert state(tmp_path, "copy")["scheduleId"] == copied.schedule_id
        assert state(tmp_path, "copy")["stats"]["totalRuns"] == 0
        assert state(tmp_path, "moved")["scheduleId"] == first

        shutil.rmtree(tmp_path / "moved")
        (tmp_path / "copy" / "pipeline.yaml").unlink()
        removed = {(await harness.wait_for_event("schedule:changed", change="removed")).schedule_id for _ in range(2)}
        assert removed == {first, copied.schedule_id}
        assert await harness.server_schedules() == {}
        assert await harness.server_jobs() == set()
        assert not (tmp_path / "copy" / STATE_FILE).exists()
        assert harness.source.schedules() == []


async def test_a_schedule_that_is_removed_and_returns_keeps_its_history(tmp_path: Path) -> None:
    put(tmp_path, "a", text())
    async with running_folder(tmp_path) as harness:
        first = harness.source.find("a").schedule_id
        await harness.run_now("a")

        put(tmp_path, "a", text(cron=None))
        await harness.wait_for_event("schedule:changed", change="removed")
        assert (tmp_path / "a" / ARCHIVE_FILE).exists()
        assert not (tmp_path / "a" / STATE_FILE).exists()
        assert await harness.server_schedules() == {}
        assert await harness.server_jobs() == {"a"}

        put(tmp_path, "a", text(cron=NEVER))
        assert (await harness.wait_for_event("schedule:changed", change="added")).schedule_id == first
        assert state(tmp_path, "a")["stats"]["totalRuns"] == 1
        assert not (tmp_path / "a" / ARCHIVE_FILE).exists()
        await harness.run_now("a")
        assert state(tmp_path, "a")["stats"]["totalRuns"] == 2


async def test_a_corrupted_state_file_is_recreated(tmp_path: Path) -> None:
    put(tmp_path, "a", text())
    async with running_folder(tmp_path) as harness:
        await harness.source.caught_up()
        before = state(tmp_path, "a")

        (tmp_path / "a" / STATE_FILE).write_text('{"version": 1, "sched')
        assert "is invalid" in (await harness.wait_for_event("warning")).message
        assert state(tmp_path, "a") == before

        (tmp_path / "a" / STATE_FILE).unlink()
        assert "is missing" in (await harness.wait_for_event("warning")).message
        assert state(tmp_path, "a") == before


async def test_notifications_follow_the_file(tmp_path: Path) -> None:
    tell = "  notify:\n    on_failure: http://127.0.0.1:9/{}\n"
    put(tmp_path, "a", text(more=tell.format("one")))
    async with running_folder(tmp_path) as harness:
        key = harness.source.find("a").schedule_id
        (hook,) = [one async for one in harness.client.webhooks()]
        assert (hook.job, hook.note) == ("a", f"folder:{key}:0")
        assert "run.failed" in hook.events
        assert hook.url.endswith("/one")

        put(tmp_path, "a", text(more=tell.format("two")))
        await harness.wait_for_event("schedule:changed", change="updated")
        (changed,) = [one async for one in harness.client.webhooks()]
        assert changed.id == hook.id
        assert changed.url.endswith("/two")

        shutil.rmtree(tmp_path / "a")
        await harness.wait_for_event("schedule:changed", change="removed")
        assert [one async for one in harness.client.webhooks()] == []


async def test_an_after_cycle_is_refused_and_runs_once_fixed(tmp_path: Path) -> None:
    put(tmp_path, "alone", text())
    put(tmp_path, "one", text(more="  after: two\n"))
    async with running_folder(tmp_path) as harness:
        put(tmp_path, "two", text(more="  after: one\n"))
        assert (await harness.wait_for_event("file:broken", file="one/pipeline.yaml")).keeps_running
        broken = await harness.wait_for_event("file:broken", file="two/pipeline.yaml")
        assert "forms a cycle: two waits for one, one waits for two" in broken.errors
        assert await harness.server_jobs() == {"alone", "one"}

        put(tmp_path, "two", text())
        assert (await harness.wait_for_event("schedule:changed", pipeline_id="two")).change == "added"
        assert await harness.server_jobs() == {"alone", "one", "two"}


async def test_changing_the_tenant_moves_everything(tmp_path: Path) -> None:
    put(tmp_path, "a", text())
    async with running_folder(tmp_path) as harness:
        first = await harness.client.schedule(harness.source.server_id("a"))

        put(tmp_path, "a", f"tenant: finance\n{text()}")
        await harness.wait_for_event("schedule:changed", pipeline_id="a")

        schedules = [view async for view in harness.client.schedules()]
        assert [(view.name, view.tenant) for view in schedules] == [(first.name, "finance")]
        assert [job.tenant async for job in harness.client.jobs()] == ["finance"]
        await harness.run_now("a")
        assert state(tmp_path, "a")["status"] == "idle"
        assert state(tmp_path, "a")["stats"]["totalRuns"] == 1
