"""`PipelineScheduler` in this process: life cycle, methods and events."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mainspring.app.folder_scheduler import PipelineScheduler
from mainspring.folder.schedule_events import EVENTS, ExecutionError, FolderEvent, SchedulerStatus, WarningRaised
from mainspring.folder.source import FolderSource
from mainspring.folder.state.records import LOCK_FILE, STATE_FILE, ScheduleStatus
from mainspring.protocol.errors import Conflict, NotFound, Refused, SchedulerLockError
from tests.api.api_harness import until

pytestmark = pytest.mark.processes

EXAMPLES = Path(__file__).parents[1] / "definitions" / "pipelines"
NEVER = 'schedule: {cron: "0 9 1 1 *", timezone: America/New_York, retryPolicy: {maxRetries: 2, retryDelayMs: 10}'
DEADLINE_SECONDS = 60


def write(root: Path, name: str, text: str) -> Path:
    """A pipeline in a folder."""
    directory = root / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "pipeline.yaml").write_text(text)
    return directory


def tasks(shell: str) -> str:
    """The `tasks` section of a file."""
    return f"tasks:\n  - {{id: only, shell: '{shell}'}}\n"


@asynccontextmanager
async def running(root: Path, told: list[FolderEvent], **options: object) -> AsyncIterator[PipelineScheduler]:
    """A started scheduler, and the events that it emits."""
    scheduler = PipelineScheduler(root, port=0, **options)  # type: ignore[arg-type]
    for event in EVENTS:
        scheduler.on(event, told.append)
    await scheduler.start()
    try:
        yield scheduler
    finally:
        await scheduler.stop()


def state(directory: Path) -> dict[str, object]:
    """Read the state file of a pipeline."""
    found: dict[str, object] = json.loads((directory / STATE_FILE).read_text())
    return found


async def test_its_life_cycle_emits_events(tmp_path: Path) -> None:
    write(tmp_path, "one", f"{NEVER}}}\n{tasks('true')}")
    told: list[FolderEvent] = []
    async with running(tmp_path, told) as scheduler:
        assert scheduler.is_running()
        assert (tmp_path / LOCK_FILE).exists()
        second = PipelineScheduler(tmp_path, port=0)
        with pytest.raises(SchedulerLockError, match="another scheduler has"):
            await second.start()
        assert not second.is_running()
        with pytest.raises(Conflict):
            await scheduler.start()

    assert not scheduler.is_running()
    assert not (tmp_path / LOCK_FILE).exists()
    assert [one.status for one in told if isinstance(one, SchedulerStatus)] == [
        "starting", "running", "stopping", "stopped",
    ]  # fmt: skip
    assert await scheduler.stop()


async def test_it_can_be_restarted(tmp_path: Path) -> None:
    directory = write(tmp_path, "one", f"{NEVER}}}\n{tasks('true')}")
    async with running(tmp_path, []) as scheduler:
        await scheduler.trigger_now("one")
        (info,) = await scheduler.list_schedules()
    async with running(tmp_path, []) as scheduler:
        assert (await scheduler.get_schedule("one")).schedule_id == info.schedule_id
        assert len(await scheduler.get_history("one")) == 1
    assert state(directory)["scheduleId"] == info.schedule_id


async def test_a_triggered_run_emits_events_and_is_counted(tmp_path: Path) -> None:
    directory = write(tmp_path, "one", f"{NEVER}}}\n{tasks('echo rows=3 > $MAINSPRING_OUTPUT')}")
    told: list[FolderEvent] = []
    async with running(tmp_path, told) as scheduler:
        result = await scheduler.trigger_now("one")

        assert (result.success, result.state, result.outputs) == (True, "SUCCEEDED", {"only": {"rows": "3"}})
        assert result.result_file is not None
        assert json.loads((directory / result.result_file).read_text())["outputs"] == {"only": {"rows": "3"}}
        (record,) = await scheduler.get_history("one")
        assert record.success
        (upcoming,) = await scheduler.get_upcoming()
        assert upcoming.pipeline_id == "one"
    names = [event.event for event in told if event.event.startswith("execution:")]
    assert names == ["execution:start", "execution:complete"]
    assert state(directory)["stats"] == {
        "totalRuns": 1, "successfulRuns": 1, "failedRuns": 0, "lastFailure": None,
        "averageDuration": record.duration,
    }  # fmt: skip


async def test_each_failed_attempt_emits_an_event(tmp_path: Path) -> None:
    directory = write(tmp_path, "one", f"{NEVER}}}\n{tasks('echo broken pipe >&2; exit 7')}")
    told: list[FolderEvent] = []
    async with running(tmp_path, told) as scheduler:
        result = await scheduler.trigger_now("one")
        info = await scheduler.get_schedule("one")

    assert (result.success, result.state) == (False, "FAILED")
    errors = [event for event in told if isinstance(event, ExecutionError)]
    assert [event.will_retry for event in errors] == [True, False]
    assert info.state.status is ScheduleStatus.ERROR
    assert info.state.last_run is not None
    assert (info.state.last_run.success, info.state.last_run.retry_attempt) == (False, 1)
    assert "exited with 7" in str(info.state.last_run.error)
    assert state(directory)["stats"]["failedRuns"] == 1  # type: ignore[index]


async def test_pause_resume_cancel(tmp_path: Path) -> None:
    directory = write(tmp_path, "one", f"{NEVER}}}\n{tasks('sleep 100')}")
    async with running(tmp_path, []) as scheduler:
        await scheduler.pause("one")
        await until(lambda: _is(scheduler, ScheduleStatus.PAUSED), within=DEADLINE_SECONDS)
        assert state(directory)["nextRun"] is None
        await scheduler.resume("one")
        await until(lambda: _is(scheduler, ScheduleStatus.IDLE), within=DEADLINE_SECONDS)

        with pytest.raises(Conflict, match="one has no active run"):
            await scheduler.cancel("one")
        going = asyncio.create_task(scheduler.trigger_now("one"))
        await until(lambda: _is(scheduler, ScheduleStatus.RUNNING), within=DEADLINE_SECONDS)
        await scheduler.cancel("one")
        assert (await going).state == "CANCELLED"

        with pytest.raises(NotFound, match="did you mean one"):
            await scheduler.get_schedule("onee")


async def _is(scheduler: PipelineScheduler, status: ScheduleStatus) -> bool:
    return (await scheduler.get_schedule("one")).state.status is status


async def test_a_failing_listener_or_a_coroutine_stops_nothing(tmp_path: Path) -> None:
    write(tmp_path, "one", f"{NEVER}}}\n{tasks('true')}")
    heard = asyncio.Event()

    async def hears(_event: FolderEvent) -> None:
        heard.set()

    def fails(_event: FolderEvent) -> None:
        raise RuntimeError("a failing listener")

    async with running(tmp_path, []) as scheduler:
        scheduler.on("execution:complete", fails)
        scheduler.on("execution:complete", hears)
        with pytest.raises(Refused, match="unknown event execution:end"):
            scheduler.on("execution:end", fails)
        assert (await scheduler.trigger_now("one")).success
        async with asyncio.timeout(DEADLINE_SECONDS):
            await heard.wait()


async def test_a_function_of_this_process_answers_prompts(tmp_path: Path) -> None:
    directory = write(tmp_path, "ask", f'{NEVER}}}\ninput: {{items: [{{word: a}}, {{word: "{{{{b}}}}"}}]}}\n'
                      'map: {prompt: "Say {{word}}", output: [said]}\nreduce: {type: list}\n')  # fmt: skip
    prompts: list[str] = []

    async def answer(prompt: str) -> str:
        prompts.append(prompt.splitlines()[0])
        return json.dumps({"said": prompt.splitlines()[0]})

    async with running(tmp_path, [], ai_invoker=answer) as scheduler:
        result = await scheduler.trigger_now("ask")

    assert (result.success, result.items_processed) == (True, 2)
    assert sorted(prompts) == ["Say a", "Say {{b}}"]
    assert state(directory)["lastRun"]["itemsProcessed"] == 2  # type: ignore[index]


@pytest.mark.parametrize("name", ["daily-bug-report", "daily-report", "weekly-sync", "queue-monitor"])
async def test_the_examples_of_the_format_run_unchanged_with_an_echo(name: str, tmp_path: Path) -> None:
    directory = tmp_path / name
    directory.mkdir()
    shutil.copy(EXAMPLES / f"{name}.yaml", directory / "pipeline.yaml")
    (directory / "bugs.csv").write_text('title\nLogin is broken\n"Slow, and {{ worse }}"\n')
    (directory / "sync-targets.csv").write_text("endpoint\nhttps://a.example\n")

    async with running(tmp_path, [], ai_invoker="command:cat") as scheduler:
        result = await scheduler.trigger_now(name)
        info = await scheduler.get_schedule(name)

    assert result.success, result.error
    assert result.items_processed == info.state.last_run.items_processed  # type: ignore[union-attr]
    assert json.loads((directory / str(result.result_file)).read_text())["failed"] == 0


async def test_disabling_a_failing_schedule_emits_a_warning(tmp_path: Path) -> None:
    failing = f"{NEVER.replace('maxRetries: 2', 'maxRetries: 1')}, max_failures: 2}}\n{tasks('exit 1')}"
    directory = write(tmp_path, "one", failing)
    told: list[FolderEvent] = []
    async with running(tmp_path, told) as scheduler:
        for _ in range(2):
            await scheduler.trigger_now("one")
        await until(lambda: _is(scheduler, ScheduleStatus.DISABLED), within=DEADLINE_SECONDS)

    (warning,) = [event for event in told if isinstance(event, WarningRaised)]
    assert warning.message.startswith("one was disabled: ")
    assert (state(directory)["status"], state(directory)["enabled"]) == ("disabled", False)


async def test_an_internal_error_stops_the_scheduler_cleanly_and_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "one", f"{NEVER}}}\n{tasks('true')}")
    scheduler = PipelineScheduler(tmp_path, port=0)

    async def breaks(_self: FolderSource) -> None:
        raise RuntimeError("the folder can't be followed")

    monkeypatch.setattr(FolderSource, "run", breaks)
    await scheduler.start()
    async with asyncio.timeout(DEADLINE_SECONDS):
        await scheduler.stopped.wait()

    assert str(scheduler.failure) == "the folder can't be followed"
    assert not (tmp_path / LOCK_FILE).exists()


async def test_a_run_that_needs_manual_action_has_status_error_and_emits_a_warning(tmp_path: Path) -> None:
    poisonous = r"""printf "{\"a\": \"\\u0000\"}" > $MAINSPRING_OUTPUT"""
    directory = write(tmp_path, "one", f"{NEVER}}}\ntasks:\n  - id: only\n    shell: |\n      {poisonous}\n")
    told: list[FolderEvent] = []
    async with running(tmp_path, told) as scheduler:
        result = await scheduler.trigger_now("one")
        await until(lambda: _is(scheduler, ScheduleStatus.ERROR), within=DEADLINE_SECONDS)

        assert (result.success, result.state) == (False, "PAUSED")
        assert state(directory)["lastRun"]["completedAt"] is None  # type: ignore[index]
        assert "only: " in state(directory)["lastRun"]["error"]  # type: ignore[index]
    (warning,) = [event for event in told if isinstance(event, WarningRaised)]
    assert warning.message.startswith("one is paused and needs manual action: only: ")


async def test_a_disposed_scheduler_stops_and_emits_nothing(tmp_path: Path) -> None:
    directory = write(tmp_path, "one", f"{NEVER}}}\n{tasks('sleep 100')}")
    told: list[FolderEvent] = []
    async with running(tmp_path, told) as scheduler:
        going = asyncio.create_task(scheduler.trigger_now("one"))
        await until(lambda: _is(scheduler, ScheduleStatus.RUNNING), within=DEADLINE_SECONDS)
        known = len(told)

        scheduler.dispose()

        assert (tmp_path / LOCK_FILE).exists()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await scheduler.stopped.wait()
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)
    assert not (tmp_path / LOCK_FILE).exists()
    assert len(told) == known
    assert state(directory)["scheduleId"]
