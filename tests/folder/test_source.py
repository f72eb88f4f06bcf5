"""A folder and its server: start, runs and state files."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from mainspring.folder.state.records import OWN_DIRECTORY, STATE_FILE, ScheduleStatus
from mainspring.protocol.errors import NotFound
from tests.folder.folder_harness import put, running_folder, state, text

pytestmark = pytest.mark.processes


async def test_all_valid_pipelines_are_loaded_at_start(tmp_path: Path) -> None:
    put(tmp_path, "reports/daily", text(name="Daily Report"))
    put(tmp_path, "by-hand", text(cron=None))
    put(tmp_path, "wrong", text().replace("cron", "corn"))
    put(tmp_path, "Reports/daily", text())

    async with running_folder(tmp_path, watches=False) as harness:
        (info,) = harness.source.schedules()
        assert info.schedule_id.startswith("reports.daily-")
        assert (info.pipeline_id, info.pipeline_directory) == ("reports.daily", str(tmp_path / "Reports/daily"))
        assert await harness.server_schedules() == {info.schedule_id: "reports.daily"}
        assert await harness.server_jobs() == {"reports.daily", "by-hand"}
        assert list(harness.beginning.errors) == ["wrong/pipeline.yaml"]
        assert "corn" in harness.beginning.errors["wrong/pipeline.yaml"]
        assert "reports/daily has the same id as Reports/daily" in harness.beginning.warnings[0]
        said = state(tmp_path, "Reports/daily")
        assert (said["scheduleId"], said["pipelineId"], said["status"]) == (info.schedule_id, "reports.daily", "idle")
        assert said["nextRun"].endswith("-01-01T00:00:00.000Z")
        assert said["lastRun"] is None
        assert not (tmp_path / "by-hand" / STATE_FILE).exists()
        assert harness.events == []


async def test_a_run_is_in_the_state_file_before_its_event(tmp_path: Path) -> None:
    directory = put(tmp_path, "a", text())

    async with running_folder(tmp_path) as harness:
        info = harness.source.find("a")
        fire = await harness.client.trigger(info.schedule_id)

        started = await harness.wait_for_event("execution:start")
        assert (started.schedule_id, started.pipeline_id, started.run_id) == (info.schedule_id, "a", fire.run_id)
        ended = await harness.wait_for_event("execution:complete")
        said = state(tmp_path, "a")

        assert ended.result.success
        assert ended.duration == said["lastRun"]["duration"]
        assert said["status"] == "idle"
        assert said["lastRun"]["success"]
        assert said["stats"]["totalRuns"] == said["stats"]["successfulRuns"] == 1
        assert said["history"][0]["startedAt"] == said["lastRun"]["startedAt"]
        result = msgspec.json.decode((directory / said["lastRun"]["resultFile"]).read_bytes())
        assert (result["run_id"], result["state"]) == (fire.run_id, "SUCCEEDED")
        assert result["outputs"] == {"only": None}
        assert harness.source.find("a").state.stats.total_runs == 1


async def test_each_failed_attempt_emits_an_event_and_the_status_between_attempts_is_error(tmp_path: Path) -> None:
    retry = "  retryPolicy: {maxRetries: 2, retryDelayMs: 700}\n"
    put(tmp_path, "a", text(run="exit 3", more=retry))

    async with running_folder(tmp_path) as harness:
        await harness.client.trigger(harness.source.find("a").schedule_id)

        first = await harness.wait_for_event("execution:error")
        assert (first.will_retry, first.retry_attempt) == (True, 1)
        between = state(tmp_path, "a")
        assert between["status"] == "error"
        assert between["lastRun"]["completedAt"] is None
        assert "3" in between["lastRun"]["error"]
        assert between["lastRun"]["retryAttempt"] == 1
        assert between["stats"]["totalRuns"] == 0

        last = await harness.wait_for_event("execution:error")
        assert not last.will_retry
        after = state(tmp_path, "a")
        assert after["status"] == "error"
        assert after["stats"]["failedRuns"] == after["stats"]["totalRuns"] == 1
        assert after["stats"]["lastFailure"] == after["lastRun"]["startedAt"]
        assert [event.event for event in harness.events] == ["execution:start", "execution:error", "execution:error"]


async def test_a_manually_retried_run_is_counted_with_its_last_result(tmp_path: Path) -> None:
    directory = put(tmp_path, "a", text(run="test -e fixed", more="  retryPolicy: {maxRetries: 1}\n"))

    async with running_folder(tmp_path) as harness:
        run_id = await harness.run_now("a")
        failed = state(tmp_path, "a")

        await harness.client.retry_run(run_id)
        assert not (await harness.wait_for_event("execution:error", will_retry=False)).retry_attempt
        assert (await harness.wait_for_event("execution:start")).run_id == run_id
        await harness.wait_for_event("execution:error", will_retry=False)
        again = state(tmp_path, "a")
        assert (again["status"], again["lastRun"]["startedAt"]) == ("error", failed["lastRun"]["startedAt"])
        assert (again["stats"]["totalRuns"], again["stats"]["failedRuns"], len(again["history"])) == (1, 1, 1)

        (directory / "fixed").touch()
        await harness.client.retry_run(run_id)
        await harness.wait_for_event("execution:start")
        assert (await harness.wait_for_event("execution:complete")).run_id == run_id

    async with running_folder(tmp_path) as harness:
        await harness.source.caught_up()
        after = state(tmp_path, "a")
        assert (after["status"], after["lastRun"]["success"], after["lastRun"]["error"]) == ("idle", True, None)
        assert [one["startedAt"] for one in after["history"]] == [failed["lastRun"]["startedAt"]]
        stats = after["stats"]
        assert (stats["totalRuns"], stats["successfulRuns"], stats["failedRuns"]) == (1, 1, 0)
        assert stats["lastFailure"] == failed["stats"]["lastFailure"]
        assert harness.events == []


async def test_pause_and_resume_are_in_the_state_file(tmp_path: Path) -> None:
    put(tmp_path, "a", text())
    put(tmp_path, "off", text(more="  enabled: false\n"))

    async with running_folder(tmp_path) as harness:
        assert (state(tmp_path, "off")["status"], state(tmp_path, "off")["enabled"]) == ("disabled", False)
        name = harness.source.find("a").schedule_id

        await harness.client.pause_schedule(name)
        await harness.source.close()
        assert (state(tmp_path, "a")["status"], state(tmp_path, "a")["nextRun"]) == ("paused", None)
        assert state(tmp_path, "a")["enabled"]

        await harness.client.resume_schedule(name)
        await harness.source.close()
        assert state(tmp_path, "a")["status"] == "idle"
        assert state(tmp_path, "a")["nextRun"] is not None


async def test_totals_survive_a_restart_and_nothing_is_applied_again(tmp_path: Path) -> None:
    put(tmp_path, "a", text())
    async with running_folder(tmp_path) as harness:
        await harness.run_now("a")
        first = harness.source.find("a")

    async with running_folder(tmp_path) as harness:
        again = harness.source.find("a")
        assert again.schedule_id == first.schedule_id
        assert again.state == first.state
        assert (await harness.client.schedule(first.schedule_id)).version == 1
        await harness.run_now("a")

    assert state(tmp_path, "a")["stats"]["totalRuns"] == 2


@pytest.mark.parametrize("begins_with_an_index", [True, False])
async def test_a_run_that_ended_while_no_scheduler_ran_is_counted_once(
    tmp_path: Path, begins_with_an_index: bool
) -> None:
    """Two processes are killed: one after a run, and one before it counted that run."""
    put(tmp_path, "a", text())
    if begins_with_an_index:
        async with running_folder(tmp_path) as harness:
            await harness.source.caught_up()
    async with running_folder(tmp_path, watches=False) as harness:
        fire = await harness.client.trigger(harness.source.find("a").schedule_id)
        await harness.client.wait(fire.run_id or "")
    async with running_folder(tmp_path, watches=False):
        assert state(tmp_path, "a")["stats"]["totalRuns"] == 0

    async with running_folder(tmp_path) as harness:
        await harness.source.caught_up()
        assert state(tmp_path, "a")["stats"]["totalRuns"] == 1
        assert harness.source.find("a").state.stats.total_runs == 1
        assert harness.events == []


async def test_a_state_file_that_is_ahead_of_the_index_never_goes_back(tmp_path: Path) -> None:
    """The index is lost; the server still has the runs."""
    put(tmp_path, "a", text())
    index = tmp_path / OWN_DIRECTORY / "folder.json"
    async with running_folder(tmp_path) as harness:
        await harness.source.caught_up()
        await harness.source.close()
        before = index.read_bytes()
        await harness.run_now("a")
    index.write_bytes(before)

    async with running_folder(tmp_path, watches=False):
        assert state(tmp_path, "a")["stats"]["totalRuns"] == 1
    async with running_folder(tmp_path) as harness:
        await harness.source.caught_up()
        assert harness.source.find("a").state.stats.total_runs == state(tmp_path, "a")["stats"]["totalRuns"] == 1


@pytest.mark.parametrize("lost", ["state file", "index", "both", "everything but the state file"])
async def test_lost_files_are_recreated(tmp_path: Path, lost: str) -> None:
    put(tmp_path, "a", text())
    async with running_folder(tmp_path) as harness:
        await harness.run_now("a")
        first = harness.source.find("a")
    if lost in {"state file", "both"}:
        (tmp_path / "a" / STATE_FILE).unlink()
    if lost in {"index", "both"}:
        (tmp_path / OWN_DIRECTORY / "folder.json").unlink()
    if lost == "everything but the state file":
        shutil.rmtree(tmp_path / OWN_DIRECTORY)

    async with running_folder(tmp_path) as harness:
        await harness.source.caught_up()
        again = harness.source.find("a")
        assert list(await harness.server_schedules()) == [first.schedule_id]
        assert again.state.stats == first.state.stats
        assert [one.started_at for one in again.state.history] == [one.started_at for one in first.state.history]
        assert state(tmp_path, "a")["scheduleId"] == first.schedule_id
        assert any("is missing" in warning for warning in harness.beginning.warnings) is (lost == "state file")


async def test_an_import_runs_only_the_missed_window(tmp_path: Path) -> None:
    directory = put(tmp_path, "a", text(cron="0 * * * *"))
    (directory / STATE_FILE).write_text(
        '{"version": 1, "scheduleId": "a-a1b2c3", "pipelineId": "a", "status": "idle", "enabled": true,'
        ' "lastRun": {"startedAt": "2026-01-26T14:00:00.000Z", "completedAt": "2026-01-26T14:02:35.000Z",'
        ' "success": true, "resultFile": null, "itemsProcessed": 42, "error": null},'
        ' "nextRun": "2026-01-26T15:00:00.000Z",'
        ' "stats": {"totalRuns": 156, "successfulRuns": 152, "failedRuns": 4, "lastFailure": null}, "history": []}'
    )

    async with running_folder(tmp_path, fires=True) as harness:
        await harness.wait_for_event("execution:complete", schedule_id="a-a1b2c3")
        said = state(tmp_path, "a")
        assert said["stats"]["totalRuns"] == 157
        assert said["history"][1]["startedAt"] == "2026-01-26T14:00:00.000Z"
        outcomes = [(fire.outcome, fire.is_catch_up) async for fire in harness.client.fires("a-a1b2c3")]
        assert outcomes.count(("ran", True)) == 1


async def test_a_paused_schedule_stays_paused_on_a_new_database(tmp_path: Path) -> None:
    put(tmp_path, "a", text(cron="* * * * * *", run="sleep 100"))
    async with running_folder(tmp_path) as harness:
        schedule_id = harness.source.find("a").schedule_id
        await harness.client.trigger(harness.source.server_id("a"))
        await harness.wait_for_event("execution:start", schedule_id=schedule_id)
        await harness.client.pause_schedule(schedule_id)
        await harness.source.close()
        assert state(tmp_path, "a")["lastRun"]["completedAt"] is None
    shutil.rmtree(tmp_path / OWN_DIRECTORY)

    async with running_folder(tmp_path, fires=True) as harness:
        assert harness.source.find("a").state.status is ScheduleStatus.PAUSED
        assert [fire async for fire in harness.client.fires(harness.source.find("a").schedule_id)] == []


async def test_a_schedule_is_found_by_prefix_and_a_typo_gets_a_suggestion(
    tmp_path: Path,
) -> None:
    for name in ("report", "reports.daily", "sync"):
        put(tmp_path, name, text())

    async with running_folder(tmp_path, watches=False) as harness:
        assert harness.source.find("report").pipeline_id == "report"
        assert harness.source.find("sy").pipeline_id == "sync"
        with pytest.raises(NotFound, match="ambiguous, 2 schedules match"):
            harness.source.find("rep")
        with pytest.raises(NotFound, match="did you mean sync"):
            harness.source.find("syncs")
