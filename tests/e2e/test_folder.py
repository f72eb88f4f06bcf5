"""`mainspring up` on a folder of pipelines: from the first start to Ctrl-C."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mainspring.folder.state.records import LOCK_FILE, RunRecord, ScheduleState, ScheduleStats
from mainspring.folder.state.state_files import write_state
from mainspring.protocol.rest.schedules import FireView
from tests.e2e.cluster import until
from tests.e2e.folders import COMMAND, Folder, a_folder
from tests.e2e.test_folder_kills import check_windows

FAR = 'schedule: {cron: "0 9 1 1 *", timezone: America/New_York'
EVERY_SECOND = 'schedule: {cron: "* * * * * *"'


def tasks(command: str) -> str:
    """The `tasks` section of a file."""
    return f"tasks:\n  - {{id: only, shell: '{command}'}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    with a_folder(tmp_path / "pipelines") as made:
        yield made


def total(folder: Folder, name: str) -> int:
    """The number of runs of a pipeline."""
    count: int = folder.state(name).get("stats", {}).get("totalRuns", 0)
    return count


def test_a_pipeline_runs_by_its_schedule_and_ctrl_c_waits_for_it(folder: Folder) -> None:
    folder.write("tick", f"{EVERY_SECOND}}}\n{tasks('sleep 0.7; echo done > made')}")

    folder.up()
    until(lambda: total(folder, "tick") >= 2, "it runs")
    until(lambda: folder.state("tick")["status"] == "running", "one more runs")
    folder.signal(signal.SIGINT)

    assert folder.ended() == 0
    state = folder.state("tick")
    assert state["status"] == "idle"
    assert state["lastRun"]["success"]
    assert state["lastRun"]["completedAt"] is not None
    assert not (folder.root / LOCK_FILE).exists()
    assert folder.processes() == []
    assert "stopped" in folder.said()


def test_a_second_ctrl_c_stops_at_once_and_the_run_resumes_at_the_next_start(folder: Folder) -> None:
    directory = folder.write(
        "slow", f"{FAR}}}\n{tasks('echo began >> log; test -e go || sleep 100; echo ended >> log')}"
    )
    folder.up("--timeout", "10m")
    with folder.client() as client:
        client.trigger(folder.state("slow")["scheduleId"])
    until((directory / "log").exists, "it runs")

    folder.signal(signal.SIGINT)
    until(lambda: "Ctrl-C again" in folder.said(), "it waits")
    folder.signal(signal.SIGINT)

    assert folder.ended() == 0
    until(lambda: not folder.processes(), "nothing is left of it")
    (directory / "go").touch()
    folder.up()
    until(lambda: total(folder, "slow") == 1, "it is run again")
    assert folder.state("slow")["lastRun"]["success"]
    assert (directory / "log").read_text().split() == ["began", "began", "ended"]


def test_a_second_instance_is_refused_and_a_lost_lock_stops_the_scheduler(folder: Folder) -> None:
    folder.write("tick", f"{FAR}}}\n{tasks('true')}")
    folder.up("--heartbeat", "200ms")
    assert folder.process is not None

    second = subprocess.run(
        [*COMMAND, "up", str(folder.root), "--port", "0"], capture_output=True, text=True, timeout=60, check=False
    )

    assert second.returncode == 4
    assert f"process {folder.process.pid} on " in second.stderr
    assert "Traceback" not in second.stderr
    with folder.client() as client:
        assert [one.job for one in client.schedules()] == ["tick"]

    theirs = folder.root / "theirs"
    record = json.loads((folder.root / LOCK_FILE).read_text())
    assert record["pid"] == folder.process.pid
    theirs.write_text(json.dumps({**record, "pid": 1, "hostname": "elsewhere"}))
    theirs.rename(folder.root / LOCK_FILE)

    assert folder.ended() == 4
    assert json.loads((folder.root / LOCK_FILE).read_text())["hostname"] == "elsewhere"


def test_file_changes_are_applied_at_runtime(folder: Folder) -> None:
    folder.write("other", f'schedule: {{cron: "*/3 * * * * *"}}\n{tasks("true")}')
    folder.up()

    folder.write("new", f"{EVERY_SECOND}}}\n{tasks('echo one >> log')}")
    until(lambda: total(folder, "new") >= 1, "a pipeline that was added runs")
    schedule = folder.state("new")["scheduleId"]
    folder.write("new", f"{EVERY_SECOND}}}\n{tasks('echo two >> log')}")
    until(lambda: "two" in (folder.root / "new/log").read_text(), "an edit is followed")
    folder.write("new", "schedule: {cronn: '* * * * *'}\ntasks: [")
    until(lambda: "new           added: every second" in folder.said(), "a new one is said, with when it runs")
    until(lambda: "new/pipeline.yaml:" in folder.said(), "a broken file is said")
    folder.write("new", f"{EVERY_SECOND}}}\n{tasks('echo three >> log')}")
    until(lambda: "three" in (folder.root / "new/log").read_text(), "it is fixed")
    assert folder.state("new")["scheduleId"] == schedule

    with folder.client() as client:
        # A run that starts between a move and its discovery finds no directory, which is not tested here.
        client.pause_schedule(schedule)
        until(lambda: all(run.ended_at for run in client.runs(job="new")), "nothing runs where it was")
    (folder.root / "new").rename(folder.root / "moved")
    until(lambda: folder.state("moved").get("pipelineId") == "moved", "a move is followed")
    assert folder.state("moved")["scheduleId"] == schedule
    shutil.copytree(folder.root / "moved", folder.root / "copied")
    until(lambda: folder.state("copied").get("pipelineId") == "copied", "a copy is its own")
    assert folder.state("copied")["scheduleId"] != schedule
    assert folder.state("moved")["scheduleId"] == schedule

    shutil.rmtree(folder.root / "moved")
    folder.write("copied", tasks("true"))
    with folder.client() as client:
        until(lambda: {one.job for one in client.schedules()} == {"other"}, "what is gone is not scheduled")
        assert [run.state for run in client.runs(q="state:failed job:other")] == []
    until((folder.root / "copied/.schedule-state.archive.json").exists, "its state is archived")
    assert folder.stop() == 0


def test_after_suspend_one_run_accounts_for_every_window(folder: Folder) -> None:
    folder.write("runs", f"{EVERY_SECOND}}}\n{tasks('true')}")
    folder.up()
    until(lambda: total(folder, "runs") >= 1, "it runs")

    seen, slept_at = until(lambda: sleep_between_runs(folder, "runs"), "it fell asleep while nothing ran")

    caught_up, on_time = seen[slept_at + 1 : slept_at + 3]
    assert (caught_up.outcome, caught_up.is_catch_up) == ("ran", True)
    assert (on_time.outcome, "1 run is active" in on_time.because) == ("skipped", True)
    check_windows(fires_of(folder, "runs"), timedelta(seconds=1))
    assert folder.stop() == 0


def sleep_between_runs(folder: Folder, name: str) -> tuple[list[FireView], int] | None:
    """Suspend the scheduler for five seconds; return the windows of a pipeline, and the index of the missed ones.

    None if a run was active when it stopped: a window may have fired at the last moment.
    """
    until(lambda: next(fire for fire in fires_of(folder, name) if fire.run_id).run_state, "its latest run has ended")
    folder.signal(signal.SIGSTOP)
    stopped_at = datetime.now(UTC)
    asleep = subprocess.run(["sleep", "5"], check=False)
    folder.signal(signal.SIGCONT)
    assert asleep.returncode == 0

    def since() -> list[FireView]:
        return [fire for fire in fires_of(folder, name)[::-1] if fire.last_window_at > stopped_at]

    until(lambda: len(since()) > 3, "missed windows are recorded, and the schedule continues")
    seen = sorted(fires_of(folder, name), key=lambda fire: fire.window_at)
    slept_at = next(place for place, fire in enumerate(seen) if fire.last_window_at > stopped_at)
    before = [fire for fire in seen[:slept_at] if fire.run_id]
    if any(fire.run_ended_at is None or fire.run_ended_at > stopped_at for fire in before):
        return None
    assert seen[slept_at].count > 1
    return seen, slept_at


MISSED = {
    "run": ("", 1, "ran"),
    "skip": ("missedExecution: skip", 0, "skipped"),
    "late": ("window: {maxDelayMinutes: 1}", 0, "late"),
}


def test_missed_windows_follow_the_policy(folder: Folder) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    hours = sorted({(now - timedelta(hours=ago)).hour for ago in (2, 3, 4)})
    for name, (policy, _, _) in MISSED.items():
        cron = f"0 {','.join(map(str, hours))} * * *"
        directory = folder.write(name, f"schedule:\n  cron: {cron}\n  timezone: UTC\n  {policy}\n{tasks('true')}")
        ran = RunRecord(started_at=now - timedelta(hours=5), completed_at=now - timedelta(hours=5), success=True)
        state = ScheduleState(
            schedule_id=f"{name}-a1b2c3", pipeline_id=name, last_run=ran,
            stats=ScheduleStats(total_runs=41, successful_runs=41),
        )  # fmt: skip
        write_state(directory, state)

    folder.up()

    for name, (_, runs, outcome) in MISSED.items():
        until(lambda name=name: fires_of(folder, name), f"{name} is decided")  # type: ignore[misc]
        until(lambda name=name, runs=runs: total(folder, name) == 41 + runs, f"{name} has run {runs} times more")  # type: ignore[misc]
        fires = fires_of(folder, name)
        assert fires[0].outcome == outcome
        assert sum(fire.count for fire in fires) == 3
        state_now = folder.state(name)
        assert (state_now["scheduleId"], state_now["status"]) == (f"{name}-a1b2c3", "idle")
        assert state_now["nextRun"] is not None
    assert folder.stop() == 0


def fires_of(folder: Folder, name: str) -> list[FireView]:
    """The windows of a pipeline with their outcome, newest first."""
    with folder.client() as client:
        return list(client.fires(folder.state(name)["scheduleId"]))
