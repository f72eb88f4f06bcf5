"""A scheduler that is killed at random times: nothing runs twice at once, no window is lost or duplicated."""

from __future__ import annotations

import itertools
import json
import random
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from mainspring.folder.state.records import LOCK_FILE, OWN_DIRECTORY, STATE_FILE
from mainspring.protocol.rest.schedules import FireView
from tests.e2e.cluster import until
from tests.e2e.folders import Folder, a_folder

KILLS = 200
PIPELINES = ("every-second", "long", "graph")
_WATCHFUL = """
import fcntl, os, sys, time
with open("alone", "w") as alone, open("told", "a") as told:
    try:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("OVERLAP", os.environ["MAINSPRING_RUN_ID"], file=told, flush=True)
    print("began", os.environ["MAINSPRING_SCHEDULED_FOR"], os.environ["MAINSPRING_RUN_ID"], file=told, flush=True)
    time.sleep(float(sys.argv[1]))
"""
_PIPELINE = """
name: {name}
schedule: {{cron: "{cron}", timezone: Europe/Paris, retryPolicy: {{maxRetries: 3, retryDelayMs: 200}}}}
tasks:
{tasks}
"""


def make(folder: Folder) -> None:
    """Pipelines that detect concurrent runs."""
    shapes = {
        "every-second": ("* * * * * *", ["  - {id: only, run: python3 watchful.py 0.05}"]),
        "long": ("*/3 * * * * *", ["  - {id: only, run: python3 watchful.py 1.5}"]),
        "graph": (
            "*/2 * * * * *",
            [
                "  - {id: first, run: python3 watchful.py 0.1}",
                "  - {id: second, needs: [first], run: python3 watchful.py 0.1}",
            ],
        ),
    }
    for name, (cron, tasks) in shapes.items():
        directory = folder.write(name, _PIPELINE.format(name=name, cron=cron, tasks="\n".join(tasks)))
        (directory / "watchful.py").write_text(_WATCHFUL)


def check_files(folder: Folder) -> None:
    """Every file of ours is valid at any time."""
    for path in (*folder.root.rglob(STATE_FILE), *folder.root.rglob(LOCK_FILE), *folder.root.rglob(".results/*.json")):
        text = path.read_text()
        assert json.loads(text), path
    index = folder.root / OWN_DIRECTORY / "folder.json"
    if index.exists():
        assert json.loads(index.read_text())


def check_windows(fires: list[FireView], step: timedelta) -> None:
    """Each window has exactly one row, without gaps from first to last."""
    planned = sorted((fire for fire in fires if not fire.by), key=lambda fire: fire.window_at)
    assert planned
    ends = [(fire.window_at, fire.last_window_at) for fire in planned]
    for (_, before), (after, _) in itertools.pairwise(ends):
        assert after - before == step
    assert sum(fire.count for fire in planned) == (ends[-1][1] - ends[0][0]) // step + 1
    runs = [fire.run_id for fire in planned if fire.run_id is not None]
    assert len(runs) == len(set(runs))


def check_never_together(directory: Path) -> None:
    """No two runs of a pipeline overlapped, and each had its own window."""
    told = [line.split() for line in (directory / "told").read_text().splitlines()]
    assert [line for line in told if line[0] == "OVERLAP"] == []
    run_of: dict[str, set[str]] = {}
    for _, window, run in told:
        run_of.setdefault(window, set()).add(run)
    assert [window for window, runs in run_of.items() if len(runs) > 1] == []


@pytest.mark.soak
def test_kill_9_at_random_moments(tmp_path: Path, soak_scale: float) -> None:
    chance = random.Random(6)
    with a_folder(tmp_path / "pipelines") as folder:
        make(folder)
        for number in range(max(3, int(KILLS * soak_scale))):
            folder.up()
            alive_until = folder.state("every-second").get("stats", {}).get("totalRuns", 0) + chance.randrange(3)
            if chance.random() < 0.8:
                until(
                    lambda least=alive_until: folder.state("every-second")["stats"]["totalRuns"] >= least,  # type: ignore[misc]
                    f"it gets on after kill {number}",
                )
            folder.kill()
            check_files(folder)
        folder.up()
        with folder.client() as client:
            names = {folder.state(name)["pipelineId"]: folder.state(name)["scheduleId"] for name in PIPELINES}
            assert set(names) == set(PIPELINES)
            before = {name: folder.state(name)["stats"]["totalRuns"] for name in PIPELINES}
            for name in PIPELINES:
                until(
                    lambda name=name: folder.state(name)["stats"]["totalRuns"] > before[name],  # type: ignore[misc]
                    f"{name} continues",
                )
            steps = {"every-second": 1, "long": 3, "graph": 2}
            for name, schedule in names.items():
                check_windows(list(client.fires(schedule)), timedelta(seconds=steps[name]))
        assert folder.stop() == 0
        check_files(folder)
        for name in PIPELINES:
            check_never_together(folder.root / name)
            state = folder.state(name)
            assert state["status"] == "idle"
            assert datetime.fromisoformat(state["lastRun"]["completedAt"]).tzinfo is not None
        assert not (folder.root / LOCK_FILE).exists()
        until(lambda: not folder.processes(), "nothing is left of it")
